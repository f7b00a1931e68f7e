// Makes a candidate: applies a plan's steps to a graph, one after the other.

import type { NamedTensors } from "../../core/tensor.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { convertToFp16 } from "../fp16/convert-to-fp16.ts";
import { dequantize } from "../fp16/dequantize.ts";
import { type Model, parseModel, serializeModel } from "../onnx/model-file.ts";
import { optimize } from "../passes/optimize.ts";
import { pruneChannels } from "../prune/prune-channels.ts";
import { pruneByMagnitude } from "../prune/prune-magnitude.ts";
import { planRatios } from "../prune/plan-ratios.ts";
import {
  createChannelTarget,
  createMagnitudeTarget,
  measureSensitivity,
} from "../prune/sensitivity.ts";
import { measureShapes } from "../prune/measure-shapes.ts";
import { createQuantizer, type QuantizeRequest } from "../quantize/quantizer.ts";
import { searchFp32Layers, rankLayers } from "../quantize/layer-sensitivity.ts";
import type { QuantizeStep, BuildStep } from "./build-plan.ts";

export interface StepContext {
  readonly runtime: Runtime;
  /** What ranges are found on, and layers compared. */
  readonly rangeSamples: readonly NamedTensors[];
  /** Points of accuracy that a graph loses against the reference, in the runtime that it is for. */
  readonly measureLossPoints: (graph: Uint8Array) => Promise<number>;
  readonly onProgress?: (what: string, done: number, of: number) => void;
}

/** Layers that `keepUntilLossPoints` tries to keep, at most: a graph with more of them in FP32 gains little. */
const MAX_FP32_LAYERS = 8;
/** Samples that layers are ranked on; more take long and change no rank. */
const MAX_RANKING_SAMPLES = 32;

/** @throws what the techniques throw: not_quantisable, nothing_to_prune, session_failed, … */
export async function applySteps(
  graph: Uint8Array,
  steps: readonly BuildStep[],
  tools: StepContext,
): Promise<Uint8Array> {
  let bytes = graph;
  for (const step of steps) bytes = await applyStep(bytes, step, tools);
  return bytes;
}

async function applyStep(
  bytes: Uint8Array,
  step: BuildStep,
  tools: StepContext,
): Promise<Uint8Array> {
  switch (step.do) {
    case "optimise":
      return await editModel(
        bytes,
        async (model) => void (await optimize(model, { runtime: tools.runtime })),
      );
    case "dequantise":
      return await editModel(bytes, async (model) => void dequantize(model));
    case "fp16":
      return await editModel(bytes, async (model) => void convertToFp16(model));
    case "prune":
      return await editModel(bytes, async (model) => await prune(model, step, tools));
    case "prune-to-budget":
      return await pruneToBudget(bytes, step, tools);
    case "quantise":
      return await quantize(bytes, step, tools);
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

type StepOf<Name extends BuildStep["do"]> = Extract<BuildStep, { readonly do: Name }>;

async function prune(
  model: Model,
  { method, ratio, scope, multiple }: StepOf<"prune">,
  { runtime, rangeSamples: samples }: StepContext,
): Promise<void> {
  if (method === "magnitude") {
    pruneByMagnitude(model, { scope: scope === "model" ? "model" : "layer", ratio });
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
  {
    runtime,
    rangeSamples: samples,
    measureLossPoints: lossPoints,
    onProgress = () => {},
  }: StepContext,
): Promise<Uint8Array> {
  const options = multiple === undefined ? {} : { multiple };
  const subject =
    method === "magnitude"
      ? createMagnitudeTarget(bytes)
      : createChannelTarget(
          bytes,
          await measureShapes(runtime, parseModel(bytes), samples[0] ?? {}),
          "macs",
          options,
        );
  const sensitivity = await measureSensitivity(
    subject,
    async (graph) => -(await lossPoints(graph)),
    { onProgress: (done, of) => onProgress("sensitivity", done, of) },
  );
  return subject.prune(planRatios(subject, sensitivity, budget * subject.computeCost(0)).ratios);
}

async function quantize(
  bytes: Uint8Array,
  step: QuantizeStep,
  {
    runtime,
    rangeSamples: samples,
    measureLossPoints: lossPoints,
    onProgress = () => {},
  }: StepContext,
): Promise<Uint8Array> {
  const { do: _do, calibration, equalise, percentile, keepUntilLossPoints, ...options } = step;
  const request: QuantizeRequest = {
    ...options,
    equalize: equalise,
    samples,
    ...(calibration === undefined
      ? {}
      : {
          rangeMethod:
            calibration === "percentile" && percentile !== undefined
              ? { kind: calibration, percentile }
              : { kind: calibration },
        }),
  };
  const prepared = await createQuantizer(runtime, parseModel(bytes), request, (progress) =>
    onProgress(progress.kind, progress.done, progress.total ?? samples.length),
  );
  if (keepUntilLossPoints === undefined) return (await prepared.quantize()).graph;
  const judged = async (keep?: readonly string[]) => {
    const { graph } = await prepared.quantize(keep);
    return { graph, loss: await lossPoints(graph) };
  };
  const whole = await judged();
  if (whole.loss <= keepUntilLossPoints) return whole.graph;
  const ranking = await rankLayers(
    runtime,
    parseModel(prepared.fp32Graph),
    prepared.quantizeSelected,
    samples.slice(0, MAX_RANKING_SAMPLES),
    { keep: options.keep },
    (done, of) => onProgress("rank layers", done, of),
  );
  const { evaluation: verdict } = await searchFp32Layers({
    ranking,
    maxFp32Layers: Math.min(MAX_FP32_LAYERS, ranking.length - 1),
    evaluate: async (keep) => (keep.length === 0 ? whole : await judged(keep)),
    isAcceptable: ({ loss }) => loss <= keepUntilLossPoints,
  });
  return verdict.graph;
}
