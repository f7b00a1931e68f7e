// Makes a candidate: applies a plan's steps to a graph, one after the other.

import type { NamedTensors } from "../../core/tensor.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { convertToFp16 } from "../fp16/convert.ts";
import { dequantise } from "../fp16/dequantise.ts";
import { type Model, readModel, writeModel } from "../onnx/model-file.ts";
import { optimise } from "../passes/optimise.ts";
import { pruneChannels } from "../prune/channels.ts";
import { pruneMagnitudes } from "../prune/magnitude.ts";
import { planRatios } from "../prune/plan.ts";
import { channelSubject, magnitudeSubject, measureSensitivity } from "../prune/sensitivity.ts";
import { measureShapes } from "../prune/shapes.ts";
import { prepareQuantisation, type QuantiseRequest } from "../quantise/quantiser.ts";
import { keepUntil, rankLayers } from "../quantise/sensitivity.ts";
import type { QuantiseStep, Step } from "./build-plan.ts";

export interface StepTools {
  readonly runtime: Runtime;
  /** What ranges are found on, and layers compared. */
  readonly samples: readonly NamedTensors[];
  /** Points of accuracy that a graph loses against the reference, in the runtime that it is for. */
  readonly lossPoints: (graph: Uint8Array) => Promise<number>;
  readonly onProgress?: (what: string, done: number, of: number) => void;
}

/** Layers that `keepUntilLossPoints` tries to keep, at most: a graph with more of them in FP32 gains little. */
const MAX_KEPT = 8;
/** Samples that layers are ranked on; more take long and change no rank. */
const RANKING_SAMPLES = 32;

/** @throws what the techniques throw: not_quantisable, nothing_to_prune, session_failed, … */
export async function applySteps(
  graph: Uint8Array,
  steps: readonly Step[],
  tools: StepTools,
): Promise<Uint8Array> {
  let bytes = graph;
  for (const step of steps) bytes = await apply(bytes, step, tools);
  return bytes;
}

async function apply(bytes: Uint8Array, step: Step, tools: StepTools): Promise<Uint8Array> {
  switch (step.do) {
    case "optimise":
      return await changed(
        bytes,
        async (model) => void (await optimise(model, { runtime: tools.runtime })),
      );
    case "dequantise":
      return await changed(bytes, async (model) => void dequantise(model));
    case "fp16":
      return await changed(bytes, async (model) => void convertToFp16(model));
    case "prune":
      return await changed(bytes, async (model) => await prune(model, step, tools));
    case "prune-to-budget":
      return await pruneToBudget(bytes, step, tools);
    case "quantise":
      return await quantise(bytes, step, tools);
  }
}

async function changed(
  bytes: Uint8Array,
  change: (model: Model) => Promise<void>,
): Promise<Uint8Array> {
  const model = readModel(bytes);
  await change(model);
  return writeModel(model);
}

type StepOf<Name extends Step["do"]> = Extract<Step, { readonly do: Name }>;

async function prune(
  model: Model,
  { method, ratio, scope, multiple }: StepOf<"prune">,
  { runtime, samples }: StepTools,
): Promise<void> {
  if (method === "magnitude") {
    pruneMagnitudes(model, { scope: scope === "model" ? "model" : "layer", ratio });
    return;
  }
  const shapes = await measureShapes(runtime, model, samples[0] ?? {});
  pruneChannels(model, shapes, {
    scope: scope === "model" ? "model" : "group",
    ratio,
    ...(multiple === undefined ? {} : { multiple }),
  });
}

/** How much each part minds is measured by accuracy, each part pruned alone. */
async function pruneToBudget(
  bytes: Uint8Array,
  { method, budget, multiple }: StepOf<"prune-to-budget">,
  { runtime, samples, lossPoints, onProgress = () => {} }: StepTools,
): Promise<Uint8Array> {
  const options = multiple === undefined ? {} : { multiple };
  const subject =
    method === "magnitude"
      ? magnitudeSubject(bytes)
      : channelSubject(
          bytes,
          await measureShapes(runtime, readModel(bytes), samples[0] ?? {}),
          "macs",
          options,
        );
  const sensitivity = await measureSensitivity(
    subject,
    async (graph) => -(await lossPoints(graph)),
    { onProgress: (done, of) => onProgress("sensitivity", done, of) },
  );
  return subject.prune(planRatios(subject, sensitivity, budget * subject.cost(0)).ratios);
}

async function quantise(
  bytes: Uint8Array,
  step: QuantiseStep,
  { runtime, samples, lossPoints, onProgress = () => {} }: StepTools,
): Promise<Uint8Array> {
  const { do: _do, calibration, percentile, keepUntilLossPoints, ...options } = step;
  const request: QuantiseRequest = {
    ...options,
    samples,
    ...(calibration === undefined
      ? {}
      : {
          calibration:
            calibration === "percentile" && percentile !== undefined
              ? { method: calibration, percentile }
              : { method: calibration },
        }),
  };
  const prepared = await prepareQuantisation(runtime, readModel(bytes), request, (progress) =>
    onProgress(progress.step, progress.done, progress.of ?? samples.length),
  );
  if (keepUntilLossPoints === undefined) return (await prepared.make()).graph;
  const judged = async (keep?: readonly string[]) => {
    const { graph } = await prepared.make(keep);
    return { graph, loss: await lossPoints(graph) };
  };
  const whole = await judged();
  if (whole.loss <= keepUntilLossPoints) return whole.graph;
  const ranking = await rankLayers(
    runtime,
    readModel(prepared.original),
    prepared.quantiser,
    samples.slice(0, RANKING_SAMPLES),
    { keep: options.keep },
    (done, of) => onProgress("rank layers", done, of),
  );
  const { verdict } = await keepUntil({
    ranking,
    maxKept: Math.min(MAX_KEPT, ranking.length - 1),
    judge: async (keep) => (keep.length === 0 ? whole : await judged(keep)),
    holds: ({ loss }) => loss <= keepUntilLossPoints,
  });
  return verdict.graph;
}
