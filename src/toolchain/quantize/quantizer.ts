// All that is done to quantise a graph, in its order: fold what belongs to layers into them, equalise, calibrate, choose layers,
// correct biases, make integers.

import { toolchainErrors } from "../errors.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { type Model, parseModel, serializeModel } from "../onnx/model-file.ts";
import { foldBatchNorm } from "../passes/fold-batch-norm.ts";
import { mergeBias } from "../passes/merge-bias.ts";
import { correctBiases, type CorrectedBias } from "./bias-correction.ts";
import { collectHistograms, selectRanges } from "./activation-ranges.ts";
import type { RangeMethod } from "./range-selection.ts";
import { quantizeDynamic } from "./dynamic-quantization.ts";
import {
  equalizeLayers,
  type EqualizedPair,
  type EqualizeOptions,
} from "./cross-layer-equalization.ts";
import type { InputSamples } from "./capture-activations.ts";
import type { QuantizeSelected } from "./layer-sensitivity.ts";
import {
  prepareGraph,
  type QuantizationReport,
  quantizeStatic,
  type StaticOptions,
} from "./static-quantization.ts";

export interface QuantizeRequest extends StaticOptions, EqualizeOptions {
  readonly mode: "dynamic" | "static";
  /** What `static` finds its ranges on. */
  readonly samples?: InputSamples | undefined;
  readonly rangeMethod?: RangeMethod | undefined;
  readonly equalize?: boolean | undefined;
  /** Of `static` only. */
  readonly correctBiases?: boolean | undefined;
}

export type QuantizeProgress =
  | { readonly kind: "collect ranges"; readonly done: number; readonly total?: undefined }
  | { readonly kind: "correct biases"; readonly done: number; readonly total: number };

export interface QuantizedGraph extends QuantizationReport {
  readonly graph: Uint8Array;
  readonly corrected: readonly CorrectedBias[];
}

export interface Quantizer {
  /** The graph in FP32 that others are made from: BatchNormalization and biases in their layers, equalised if that was asked for, and every node with a name. */
  readonly fp32Graph: Uint8Array;
  readonly equalizedPairs: readonly EqualizedPair[];
  /** For `rankLayers`. Biases are as they are. */
  readonly quantizeSelected: QuantizeSelected;
  /** @param keep further operators or nodes that stay in FP32 @throws not_quantizable, session_failed */
  quantize(keep?: readonly string[]): Promise<QuantizedGraph>;
}

/**
 * Does what does not depend on the layers that are kept: samples are run once, however many candidates are made.
 * @param model is not changed
 * @throws not_quantizable, session_failed
 */
export async function createQuantizer(
  runtime: Runtime,
  model: Model,
  request: QuantizeRequest,
  onProgress: (progress: QuantizeProgress) => void = () => {},
): Promise<Quantizer> {
  const { mode, samples, rangeMethod: calibration = { kind: "minmax" } } = request;
  const own = parseModel(serializeModel(model));
  foldBatchNorm(own);
  mergeBias(own);
  prepareGraph(own, request);
  const equalised = request.equalize === true ? equalizeLayers(own, request) : [];
  const original = serializeModel(own);
  const withKept = (keep: readonly string[]): StaticOptions => ({
    ...request,
    keep: [...(request.keep ?? []), ...keep],
  });
  if (mode === "dynamic") {
    return {
      fp32Graph: original,
      equalizedPairs: equalised,
      quantizeSelected: (copy, selection) => quantizeDynamic(copy, { ...request, ...selection }),
      quantize: async (keep = []) => {
        const copy = parseModel(original);
        const quantised = quantizeDynamic(copy, withKept(keep));
        return { ...quantised, graph: serializeModel(copy), corrected: [] };
      },
    };
  }
  if (samples === undefined)
    throw toolchainErrors.notQuantizable(
      "static quantisation finds its ranges on samples, and there are none",
      "Give some, or quantise dynamically.",
    );
  const statistics = await collectHistograms(runtime, own, samples, request, (done) =>
    onProgress({ kind: "collect ranges", done }),
  );
  const ranges = selectRanges(own, statistics, calibration);
  return {
    fp32Graph: original,
    equalizedPairs: equalised,
    quantizeSelected: (copy, selection) =>
      quantizeStatic(copy, ranges, { ...request, ...selection }),
    quantize: async (keep = []) => {
      const copy = parseModel(original);
      const options = withKept(keep);
      const onLayer = (done: number, of: number) =>
        onProgress({ kind: "correct biases", done, total: of });
      const corrected =
        request.correctBiases === true
          ? await correctBiases(runtime, copy, ranges, samples, options, onLayer)
          : [];
      const quantised = quantizeStatic(copy, ranges, options);
      return { ...quantised, graph: serializeModel(copy), corrected };
    },
  };
}
