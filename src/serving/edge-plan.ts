// What of an infer request this edge answers itself.
//
// A task's own inputs go through the cascade, as a prediction does; tensors of a graph go to an edge tier that they fit. What
// is meant for a region tier, or what this edge cannot run, is the region's to answer.

import { coreErrors } from "../core/common-errors.ts";
import { runCascade } from "../cascade/cascade.ts";
import type { Deadline } from "../cascade/deadline.ts";
import { asEdgeTierError } from "../core/errors.ts";
import type { NamedTensors, TensorSpec } from "../core/tensor.ts";
import type { Manifest, TierManifest } from "../registry/manifest.ts";
import type { TaskInput } from "../tasks/task.ts";
import { readTaskInputs } from "../tasks/task-inputs.ts";
import type { InferenceMetrics } from "./inference-metrics.ts";
import type { EdgeSessions } from "./edge-sessions.ts";
import type { RequestContext } from "./request-context.ts";
import type { LoadedEncoder } from "./loaded-encoder.ts";
import type { LoadedCascade, LoadedEdgeModel } from "./loaded-model.ts";
import { gatherRows, type OutputRow, commonOutputs } from "./common-outputs.ts";
import { markSpanDegraded, tierAttributes, withSpan } from "./with-span.ts";

export interface TensorRequest {
  readonly inputs: NamedTensors;
  /** Id of the one tier to ask. */
  readonly tier: string | undefined;
  /** Names of the outputs asked for; all where undefined. */
  readonly outputs: readonly string[] | undefined;
}

/** What this edge can do for a request. */
export interface EdgePlan {
  /** What its inputs have to be; undefined where a task has read them already. */
  readonly inputs: readonly TensorSpec[] | undefined;
  /** That it can be asked for. */
  readonly outputs: readonly TensorSpec[];
  /** @returns undefined where it could not, and the region can @throws what the tiers throw */
  execute(context: RequestContext, deadline: Deadline): Promise<TensorResult | undefined>;
}

export interface TensorResult {
  readonly outputs: NamedTensors;
  /** Ids of the tiers whose rows they are. */
  readonly tiers: readonly string[];
  /** As of a prediction: a fault or the deadline kept a better tier from being asked about some of the rows. */
  readonly degraded: boolean;
}

/** A version's tiers as they concern this edge. */
export interface TierSelection {
  readonly edge: readonly TierManifest[];
  /** Those of them that it can run. */
  readonly runnable: readonly TierManifest[];
  /** The one that a region answers with. */
  readonly region: TierManifest | undefined;
  /** The one whose tensors clients are told of. */
  readonly primary: TierManifest;
}

export interface EdgePlannerOptions {
  readonly manifest: Manifest;
  readonly loadedModel: Pick<LoadedEdgeModel, "cascade" | "encoder">;
  readonly tierSelection: TierSelection;
  readonly sessions: Pick<EdgeSessions, "infer">;
  readonly hasRegion: boolean;
  /** Of a task's own inputs in one request. */
  readonly maxInputs: number;
  readonly metrics: InferenceMetrics;
}

export interface EdgePlanner {
  /** What a client gets that asks for no tier. */
  readonly outputs: readonly TensorSpec[];
  /** @returns undefined where the region has to answer @throws no_such_tier, invalid_tensor, too_many_inputs, and what the task refuses */
  plan(request: TensorRequest): EdgePlan | undefined;
}

export function createEdgePlanner({
  manifest,
  loadedModel: { cascade, encoder },
  tierSelection: choice,
  sessions,
  hasRegion,
  maxInputs,
  metrics: counted,
}: EdgePlannerOptions): EdgePlanner {
  const { edge, runnable, region, primary: face } = choice;
  const own = cascade ?? encoder;
  const outputs =
    cascade === undefined || edge.length === 0 ? face.outputs : commonOutputs(manifest.tiers);

  const runGraph = (tier: TierManifest, inputs: NamedTensors, regionCan: boolean): EdgePlan => ({
    inputs: tier.inputs,
    outputs: tier.outputs,
    execute: createTierExecutor(
      tier,
      1,
      (context, deadline) => sessions.infer(tier, inputs, context, deadline),
      regionCan,
      counted,
    ),
  });

  function planForOne(
    tier: TierManifest,
    inputs: NamedTensors,
    rows: readonly TaskInput[] | undefined,
  ): EdgePlan | undefined {
    if (tier.place === "region") return undefined;
    return own === undefined || rows === undefined
      ? runGraph(tier, inputs, false)
      : runRows(own, tier, rows, false);
  }

  const runRows = (
    { runTier: run }: Pick<LoadedCascade, "runTier">,
    tier: TierManifest,
    rows: readonly TaskInput[],
    regionCan: boolean,
  ): EdgePlan => ({
    inputs: undefined,
    outputs: tier.outputs,
    execute: createTierExecutor(
      tier,
      rows.length,
      (context, deadline) => run(tier.id, rows, context, deadline),
      regionCan,
      counted,
    ),
  });

  /** One tier answers: this edge's, if it can run it. */
  function planForEncoder(
    encoder: LoadedEncoder,
    rows: readonly TaskInput[],
  ): EdgePlan | undefined {
    const tier = runnable[0] ?? region ?? face;
    return tier.place === "region"
      ? undefined
      : runRows(encoder, tier, rows, region !== undefined && hasRegion);
  }

  /** Tensors that fit no tier are for the one whose tensors clients are told of: it says what is wrong with them. */
  function planForAny({ inputs, outputs: wanted }: TensorRequest): EdgePlan | undefined {
    const fits = (tier: TierManifest | undefined): tier is TierManifest =>
      tier !== undefined && matchesTensorNames(tier, inputs, wanted);
    const regionFits = fits(region);
    const tier = runnable.find(fits) ?? (regionFits ? region : (edge.find(fits) ?? face));
    return tier.place === "region" ? undefined : runGraph(tier, inputs, regionFits && hasRegion);
  }

  return {
    outputs,
    plan(request) {
      const tier = request.tier === undefined ? undefined : findTier(manifest, request.tier);
      if (edge.length === 0) return undefined;
      const rows = own && readTaskInputs(request.inputs, own.inputFromBytes, maxInputs);
      if (tier !== undefined) return planForOne(tier, request.inputs, rows);
      if (rows === undefined) return planForAny(request);
      if (encoder !== undefined) return planForEncoder(encoder, rows);
      return cascade && planCascade(cascade, rows, outputs, counted);
    },
  };
}

/** @throws no_such_tier */
function findTier({ model, tiers }: Manifest, id: string): TierManifest {
  const tier = tiers.find((one) => one.id === id);
  if (tier === undefined)
    throw coreErrors.noSuchTier(
      model,
      id,
      tiers.map((one) => one.id),
    );
  return tier;
}

/** Whether a graph has just these inputs and, among others, these outputs; shapes are for the session to check. */
function matchesTensorNames(
  tier: TierManifest,
  inputs: NamedTensors,
  outputs: readonly string[] = [],
): boolean {
  const names = Object.keys(inputs);
  const takesAll =
    names.length === tier.inputs.length &&
    tier.inputs.every(
      ({ name, datatype }) => names.includes(name) && inputs[name]?.datatype === datatype,
    );
  return takesAll && outputs.every((output) => tier.outputs.some(({ name }) => name === output));
}

/** @param rows of the task's own inputs; tensors count as one @param regionCan answer, where this edge fails */
function createTierExecutor(
  tier: TierManifest,
  rows: number,
  run: (context: RequestContext, deadline: Deadline) => Promise<NamedTensors>,
  regionCan: boolean,
  counted: InferenceMetrics,
): EdgePlan["execute"] {
  const { id } = tier;
  return async (context, deadline) => {
    try {
      const outputs = await counted.measureTier(id, rows, () =>
        withSpan(context, "tier", tierAttributes(tier), (inSpan) => run(inSpan, deadline)),
      );
      counted.recordAnswers(Array.from({ length: rows }, () => ({ tier: id })));
      return { outputs, tiers: [id], degraded: false };
    } catch (error) {
      if (!regionCan || asEdgeTierError(error).status < 500 || deadline.remainingMs() === 0)
        throw error;
      return undefined;
    }
  };
}

/** The cascade; each row of the answer is of the tier whose answer was taken. */
function planCascade(
  cascade: LoadedCascade,
  inputs: readonly TaskInput[],
  specs: readonly TensorSpec[],
  counted: InferenceMetrics,
): EdgePlan {
  return {
    inputs: undefined,
    outputs: specs,
    async execute(context, deadline) {
      /** What each tier that was asked gave for an input. */
      const given = new Map(inputs.map((input) => [input, new Map<string, OutputRow>()]));
      const tiers = cascade.createTiers(context, 1, (tier, asked, outputs) =>
        asked.forEach((input, row) => given.get(input)?.set(tier, { outputs, row })),
      );
      const { outcomes } = await runCascade(
        tiers,
        inputs,
        deadline,
        undefined,
        counted.recordTierUsage,
      );
      counted.recordAnswers(outcomes);
      const degraded = outcomes.some((one) => one.degraded);
      if (degraded) markSpanDegraded(context);
      const rows = outcomes.map(
        ({ tier }, index) => given.get(inputs[index] as TaskInput)?.get(tier) as OutputRow,
      );
      return {
        outputs: gatherRows(specs, rows),
        tiers: [...new Set(outcomes.map(({ tier }) => tier))],
        degraded,
      };
    },
  };
}
