// Edge plan: decides how the edge serves an infer request, or leaves it to the region.
//
// Task inputs run through the cascade, as in a prediction. Tensors run on an edge tier whose graph accepts them. Requests for a
// region tier, and requests that the edge cannot run, go to the region.

import { runCascade } from "../cascade/cascade.ts";
import type { Deadline } from "../cascade/deadline.ts";
import { coreErrors } from "../core/common-errors.ts";
import { asEdgeTierError } from "../core/errors.ts";
import type { NamedTensors, TensorSpec } from "../core/tensor.ts";
import type { Manifest, TierManifest } from "../registry/manifest.ts";
import { readTaskInputs } from "../tasks/task-inputs.ts";
import type { TaskInput } from "../tasks/task.ts";
import { gatherRows, type OutputRow, commonOutputs } from "./common-outputs.ts";
import type { EdgeSessions } from "./edge-sessions.ts";
import type { InferenceMetrics } from "./inference-metrics.ts";
import type { LoadedEncoder } from "./loaded-encoder.ts";
import type { LoadedCascade, LoadedEdgeModel } from "./loaded-model.ts";
import type { RequestContext } from "./request-context.ts";
import { markSpanDegraded, tierAttributes, withSpan } from "./with-span.ts";

export interface TensorRequest {
  readonly inputs: NamedTensors;
  /** Id of the only tier to run. */
  readonly tier: string | undefined;
  /** Names of the requested outputs; undefined requests all. */
  readonly outputs: readonly string[] | undefined;
}

export interface EdgePlan {
  /** Specs that the inputs must match; undefined if the task has parsed the inputs already. */
  readonly inputs: readonly TensorSpec[] | undefined;
  /** Available outputs. */
  readonly outputs: readonly TensorSpec[];
  /** @returns undefined if the edge fails and the region can answer @throws the tiers' errors */
  execute(context: RequestContext, deadline: Deadline): Promise<TensorResult | undefined>;
}

export interface TensorResult {
  readonly outputs: NamedTensors;
  /** Ids of the tiers that produced the rows. */
  readonly tiers: readonly string[];
  /** Whether a fault or the deadline prevented escalation of some rows, as in a prediction. */
  readonly degraded: boolean;
}

/** Tiers of a version by their role at this edge. */
export interface TierSelection {
  readonly edge: readonly TierManifest[];
  /** Edge tiers that this deployment can run. */
  readonly runnable: readonly TierManifest[];
  /** Tier that the region runs by default. */
  readonly region: TierManifest | undefined;
  /** Tier whose tensors the model's metadata describes. */
  readonly primary: TierManifest;
}

export interface EdgePlannerOptions {
  readonly manifest: Manifest;
  readonly loadedModel: Pick<LoadedEdgeModel, "cascade" | "encoder">;
  readonly tierSelection: TierSelection;
  readonly sessions: Pick<EdgeSessions, "infer">;
  readonly hasRegion: boolean;
  /** Maximum number of task inputs per request. */
  readonly maxInputs: number;
  readonly metrics: InferenceMetrics;
}

export interface EdgePlanner {
  /** Outputs of a request that names no tier. */
  readonly outputs: readonly TensorSpec[];
  /** @returns undefined if the region must answer @throws no_such_tier, invalid_tensor, too_many_inputs; input errors of the task */
  plan(request: TensorRequest): EdgePlan | undefined;
}

export function createEdgePlanner(options: EdgePlannerOptions): EdgePlanner {
  const { manifest, loadedModel, tierSelection, maxInputs, metrics } = options;
  const { cascade, encoder } = loadedModel;
  const taskModel = cascade ?? encoder;
  const outputs =
    cascade === undefined || tierSelection.edge.length === 0
      ? tierSelection.primary.outputs
      : commonOutputs(manifest.tiers);

  return {
    outputs,
    plan(request) {
      const tier = request.tier === undefined ? undefined : findTier(manifest, request.tier);
      if (tierSelection.edge.length === 0) return undefined;
      const rows = taskModel && readTaskInputs(request.inputs, taskModel.inputFromBytes, maxInputs);
      if (tier !== undefined) return planTier(options, tier, request.inputs, rows);
      if (rows === undefined) return planMatchingTier(options, request);
      if (encoder !== undefined) return planEncoder(options, encoder, rows);
      return cascade && planCascade(cascade, rows, outputs, metrics);
    },
  };
}

/** @throws no_such_tier */
function findTier({ model, tiers }: Manifest, id: string): TierManifest {
  const tier = tiers.find((candidate) => candidate.id === id);
  if (tier === undefined)
    throw coreErrors.noSuchTier(
      model,
      id,
      tiers.map((candidate) => candidate.id),
    );
  return tier;
}

/** Plans the tier that the request names. */
function planTier(
  options: EdgePlannerOptions,
  tier: TierManifest,
  inputs: NamedTensors,
  rows: readonly TaskInput[] | undefined,
): EdgePlan | undefined {
  if (tier.place === "region") return undefined;
  const { cascade, encoder } = options.loadedModel;
  const taskModel = cascade ?? encoder;
  return taskModel === undefined || rows === undefined
    ? planGraph(options, tier, inputs, false)
    : planRows(options, taskModel, tier, rows, false);
}

/** Plans the edge tier of an encoder if the edge can run it. One tier serves all rows. */
function planEncoder(
  options: EdgePlannerOptions,
  encoder: LoadedEncoder,
  rows: readonly TaskInput[],
): EdgePlan | undefined {
  const { runnable, region, primary } = options.tierSelection;
  const tier = runnable[0] ?? region ?? primary;
  return tier.place === "region"
    ? undefined
    : planRows(options, encoder, tier, rows, region !== undefined && options.hasRegion);
}

/** Plans the first tier that accepts the tensors. Tensors that match no tier go to the primary tier, which rejects them. */
function planMatchingTier(
  options: EdgePlannerOptions,
  { inputs, outputs }: TensorRequest,
): EdgePlan | undefined {
  const { edge, runnable, region, primary } = options.tierSelection;
  const matches = (tier: TierManifest | undefined): tier is TierManifest =>
    tier !== undefined && matchesTensorNames(tier, inputs, outputs);
  const regionMatches = matches(region);
  const tier = runnable.find(matches) ?? (regionMatches ? region : (edge.find(matches) ?? primary));
  return tier.place === "region"
    ? undefined
    : planGraph(options, tier, inputs, regionMatches && options.hasRegion);
}

/** Whether a graph has exactly these inputs, and at least these outputs. The session checks shapes. */
function matchesTensorNames(
  tier: TierManifest,
  inputs: NamedTensors,
  outputs: readonly string[] = [],
): boolean {
  const names = Object.keys(inputs);
  const matchesInputs =
    names.length === tier.inputs.length &&
    tier.inputs.every(
      ({ name, datatype }) => names.includes(name) && inputs[name]?.datatype === datatype,
    );
  return (
    matchesInputs && outputs.every((output) => tier.outputs.some(({ name }) => name === output))
  );
}

const planGraph = (
  { sessions, metrics }: EdgePlannerOptions,
  tier: TierManifest,
  inputs: NamedTensors,
  hasFallback: boolean,
): EdgePlan => ({
  inputs: tier.inputs,
  outputs: tier.outputs,
  execute: createTierExecutor({
    tier,
    rowCount: 1,
    infer: (context, deadline) => sessions.infer(tier, inputs, context, deadline),
    hasFallback,
    metrics,
  }),
});

const planRows = (
  { metrics }: EdgePlannerOptions,
  taskModel: Pick<LoadedCascade, "runTier">,
  tier: TierManifest,
  rows: readonly TaskInput[],
  hasFallback: boolean,
): EdgePlan => ({
  inputs: undefined,
  outputs: tier.outputs,
  execute: createTierExecutor({
    tier,
    rowCount: rows.length,
    infer: (context, deadline) => taskModel.runTier(tier.id, rows, context, deadline),
    hasFallback,
    metrics,
  }),
});

interface TierExecution {
  readonly tier: TierManifest;
  /** Number of task inputs; tensors count as one. */
  readonly rowCount: number;
  readonly infer: (context: RequestContext, deadline: Deadline) => Promise<NamedTensors>;
  /** Whether the region can answer if the edge fails. */
  readonly hasFallback: boolean;
  readonly metrics: InferenceMetrics;
}

function createTierExecutor({
  tier,
  rowCount,
  infer,
  hasFallback,
  metrics,
}: TierExecution): EdgePlan["execute"] {
  const { id } = tier;
  return async (context, deadline) => {
    try {
      const outputs = await metrics.measureTier(id, rowCount, () =>
        withSpan(context, "tier", tierAttributes(tier), (inSpan) => infer(inSpan, deadline)),
      );
      metrics.recordAnswers(Array.from({ length: rowCount }, () => ({ tier: id })));
      return { outputs, tiers: [id], degraded: false };
    } catch (error) {
      if (!hasFallback || asEdgeTierError(error).status < 500 || deadline.remainingMs() === 0)
        throw error;
      return undefined;
    }
  };
}

/** Runs the cascade; each output row comes from the tier whose answer the cascade accepted. */
function planCascade(
  cascade: LoadedCascade,
  inputs: readonly TaskInput[],
  specs: readonly TensorSpec[],
  metrics: InferenceMetrics,
): EdgePlan {
  return {
    inputs: undefined,
    outputs: specs,
    async execute(context, deadline) {
      /** Output row by input and tier id. */
      const rowsByTier = new Map(inputs.map((input) => [input, new Map<string, OutputRow>()]));
      const tiers = cascade.createTiers(context, 1, (tier, tierInputs, outputs) =>
        tierInputs.forEach((input, row) => rowsByTier.get(input)?.set(tier, { outputs, row })),
      );
      const { outcomes } = await runCascade(
        tiers,
        inputs,
        deadline,
        undefined,
        metrics.recordTierUsage,
      );
      metrics.recordAnswers(outcomes);
      const degraded = outcomes.some((outcome) => outcome.degraded);
      if (degraded) markSpanDegraded(context);
      const rows = outcomes.map(
        ({ tier }, index) => rowsByTier.get(inputs[index] as TaskInput)?.get(tier) as OutputRow,
      );
      return {
        outputs: gatherRows(specs, rows),
        tiers: [...new Set(outcomes.map(({ tier }) => tier))],
        degraded,
      };
    },
  };
}
