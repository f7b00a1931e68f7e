// Applies the steps of a build plan to a graph, in order.

import type { NamedTensors } from "../../core/tensor.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { convertToFp16 } from "../fp16/convert-to-fp16.ts";
import { dequantize } from "../fp16/dequantize.ts";
import { type Model, parseModel, serializeModel } from "../onnx/model-file.ts";
import { optimize } from "../passes/optimize.ts";
import { measureShapes } from "../prune/measure-shapes.ts";
import { planRatios } from "../prune/plan-ratios.ts";
import { pruneChannels } from "../prune/prune-channels.ts";
import { pruneByMagnitude } from "../prune/prune-magnitude.ts";
import {
  createChannelTarget,
  createMagnitudeTarget,
  measureSensitivity,
} from "../prune/sensitivity.ts";
import { searchFp32Layers, rankLayers } from "../quantize/layer-sensitivity.ts";
import { createQuantizer, type QuantizeRequest } from "../quantize/quantizer.ts";
import type { QuantizeStep, BuildStep } from "./build-plan.ts";

export interface StepContext {
  readonly runtime: Runtime;
  /** Samples for quantization ranges and for the ranking of layers. */
  readonly rangeSamples: readonly NamedTensors[];
  /** Accuracy loss of a graph against the reference, in points, in the tier's runtime. */
  readonly measureLossPoints: (graph: Uint8Array) => Promise<number>;
  readonly onProgress?: (activity: string, done: number, total: number) => void;
}

/**
 * Maximum number of layers that `keepUntilLossPoints` keeps in FP32. A graph with more FP32 layers
 * gains little.
 */
const MAX_FP32_LAYERS = 8;
/**
 * Maximum number of samples for the ranking of layers. More take long and do not change the
 * ranking.
 */
const MAX_RANKING_SAMPLES = 32;

/** @throws not_quantizable, nothing_to_prune, session_failed and further codes of the techniques */
export async function applySteps(
  graph: Uint8Array,
  steps: readonly BuildStep[],
  context: StepContext,
): Promise<Uint8Array> {
  let bytes = graph;
  for (const step of steps) bytes = await applyStep(bytes, step, context);
  return bytes;
}

async function applyStep(
  bytes: Uint8Array,
  step: BuildStep,
  context: StepContext,
): Promise<Uint8Array> {
  switch (step.kind) {
    case "optimize":
      return await editModel(
        bytes,
        async (model) => void (await optimize(model, { runtime: context.runtime })),
      );
    case "dequantize":
      return await editModel(bytes, async (model) => void dequantize(model));
    case "fp16":
      return await editModel(bytes, async (model) => void convertToFp16(model));
    case "prune":
      return await editModel(bytes, async (model) => await prune(model, step, context));
    case "prune-to-budget":
      return await pruneToBudget(bytes, step, context);
    case "quantize":
      return await quantize(bytes, step, context);
  }
}

async function editModel(
  bytes: Uint8Array,
  change: (model: Model) => Promise<void>,
): Promise<Uint8Array> {
  const model = parseModel(bytes);
  await change(model);
  return serializeModel(model);
}

type StepOf<Kind extends BuildStep["kind"]> = Extract<BuildStep, { readonly kind: Kind }>;

async function prune(
  model: Model,
  { method, ratio, scope, multiple }: StepOf<"prune">,
  { runtime, rangeSamples }: StepContext,
): Promise<void> {
  if (method === "magnitude") {
    pruneByMagnitude(model, { scope: scope === "model" ? "model" : "layer", ratio });
    return;
  }
  const shapes = await measureShapes(runtime, model, rangeSamples[0] ?? {});
  pruneChannels(model, shapes, {
    scope: scope === "model" ? "model" : "group",
    ratio,
    ...(multiple === undefined ? {} : { multiple }),
  });
}

/** Prunes each part alone first, to measure how much accuracy its pruning costs. */
async function pruneToBudget(
  bytes: Uint8Array,
  { method, budget, multiple }: StepOf<"prune-to-budget">,
  { runtime, rangeSamples, measureLossPoints, onProgress = () => {} }: StepContext,
): Promise<Uint8Array> {
  const options = multiple === undefined ? {} : { multiple };
  const target =
    method === "magnitude"
      ? createMagnitudeTarget(bytes)
      : createChannelTarget(
          bytes,
          await measureShapes(runtime, parseModel(bytes), rangeSamples[0] ?? {}),
          "macs",
          options,
        );
  const sensitivity = await measureSensitivity(
    target,
    async (graph) => -(await measureLossPoints(graph)),
    { onProgress: (done, total) => onProgress("sensitivity", done, total) },
  );
  return target.prune(planRatios(target, sensitivity, budget * target.computeCost(0)).ratios);
}

async function quantize(
  bytes: Uint8Array,
  step: QuantizeStep,
  { runtime, rangeSamples, measureLossPoints, onProgress = () => {} }: StepContext,
): Promise<Uint8Array> {
  const { kind: _kind, rangeMethod, percentile, keepUntilLossPoints, ...options } = step;
  const request: QuantizeRequest = {
    ...options,
    samples: rangeSamples,
    ...(rangeMethod === undefined
      ? {}
      : {
          rangeMethod:
            rangeMethod === "percentile" && percentile !== undefined
              ? { kind: rangeMethod, percentile }
              : { kind: rangeMethod },
        }),
  };
  const prepared = await createQuantizer(runtime, parseModel(bytes), request, (progress) =>
    onProgress(progress.kind, progress.done, progress.total ?? rangeSamples.length),
  );
  if (keepUntilLossPoints === undefined) return (await prepared.quantize()).graph;
  const quantizeAndMeasure = async (keep?: readonly string[]) => {
    const { graph } = await prepared.quantize(keep);
    return { graph, loss: await measureLossPoints(graph) };
  };
  const allLayers = await quantizeAndMeasure();
  if (allLayers.loss <= keepUntilLossPoints) return allLayers.graph;
  const ranking = await rankLayers(
    runtime,
    parseModel(prepared.fp32Graph),
    prepared.quantizeSelected,
    rangeSamples.slice(0, MAX_RANKING_SAMPLES),
    { keep: options.keep },
    (done, total) => onProgress("rank layers", done, total),
  );
  const { evaluation } = await searchFp32Layers({
    ranking,
    maxFp32Layers: Math.min(MAX_FP32_LAYERS, ranking.length - 1),
    evaluate: async (keep) => (keep.length === 0 ? allLayers : await quantizeAndMeasure(keep)),
    isAcceptable: ({ loss }) => loss <= keepUntilLossPoints,
  });
  return evaluation.graph;
}
