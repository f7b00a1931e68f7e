// Quantizes a graph in all steps, in order: fold operators into their layers, equalize, collect
// ranges, choose layers, correct biases, convert to integers.

import type { Runtime } from "../../runtime/runtime.ts";
import { toolchainErrors } from "../errors.ts";
import { type Model, parseModel, serializeModel } from "../onnx/model-file.ts";
import { foldBatchNorm } from "../passes/fold-batch-norm.ts";
import { mergeBias } from "../passes/merge-bias.ts";
import { collectHistograms, selectRanges } from "./activation-ranges.ts";
import { correctBiases, type CorrectedBias } from "./bias-correction.ts";
import type { InputSamples } from "./capture-activations.ts";
import {
  equalizeLayers,
  type EqualizedPair,
  type EqualizeOptions,
} from "./cross-layer-equalization.ts";
import { quantizeDynamic } from "./dynamic-quantization.ts";
import type { QuantizeSelected } from "./layer-sensitivity.ts";
import type { RangeMethod } from "./range-selection.ts";
import {
  prepareGraph,
  type QuantizationReport,
  quantizeStatic,
  type StaticOptions,
} from "./static-quantization.ts";

export interface QuantizeRequest extends StaticOptions, EqualizeOptions {
  readonly mode: "dynamic" | "static";
  /** Samples for the ranges of `static`. */
  readonly samples?: InputSamples | undefined;
  readonly rangeMethod?: RangeMethod | undefined;
  readonly equalize?: boolean | undefined;
  /** Applies to `static` only. */
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
  /**
   * The FP32 graph that all candidates start from. BatchNormalization and biases are folded, layers
   * are equalized on request, and every node has a name.
   */
  readonly fp32Graph: Uint8Array;
  readonly equalizedPairs: readonly EqualizedPair[];
  /** For `rankLayers`; without bias correction. */
  readonly quantizeSelected: QuantizeSelected;
  /**
   * @param keep additional operators or nodes that remain in FP32
   * @throws not_quantizable, session_failed
   */
  quantize(keep?: readonly string[]): Promise<QuantizedGraph>;
}

/**
 * Performs the steps that do not depend on the choice of layers, so samples run once for all
 * candidates.
 * @param model remains unchanged
 * @throws not_quantizable, session_failed
 */
export async function createQuantizer(
  runtime: Runtime,
  model: Model,
  request: QuantizeRequest,
  onProgress: (progress: QuantizeProgress) => void = () => {},
): Promise<Quantizer> {
  const { mode, samples, rangeMethod = { kind: "minmax" } } = request;
  const prepared = parseModel(serializeModel(model));
  foldBatchNorm(prepared);
  mergeBias(prepared);
  prepareGraph(prepared, request);
  const equalizedPairs = request.equalize === true ? equalizeLayers(prepared, request) : [];
  const fp32Graph = serializeModel(prepared);
  const withFp32Layers = (keep: readonly string[]): StaticOptions => ({
    ...request,
    keep: [...(request.keep ?? []), ...keep],
  });
  if (mode === "dynamic") {
    return {
      fp32Graph,
      equalizedPairs,
      quantizeSelected: (copy, selection) => quantizeDynamic(copy, { ...request, ...selection }),
      quantize: async (keep = []) => {
        const copy = parseModel(fp32Graph);
        const report = quantizeDynamic(copy, withFp32Layers(keep));
        return { ...report, graph: serializeModel(copy), corrected: [] };
      },
    };
  }
  if (samples === undefined)
    throw toolchainErrors.notQuantizable(
      "static quantization requires samples, but there are none",
      "Give samples, or quantize dynamically.",
    );
  const histograms = await collectHistograms(runtime, prepared, samples, request, (done) =>
    onProgress({ kind: "collect ranges", done }),
  );
  const ranges = selectRanges(prepared, histograms, rangeMethod);
  return {
    fp32Graph,
    equalizedPairs,
    quantizeSelected: (copy, selection) =>
      quantizeStatic(copy, ranges, { ...request, ...selection }),
    quantize: async (keep = []) => {
      const copy = parseModel(fp32Graph);
      const options = withFp32Layers(keep);
      const onLayer = (done: number, total: number) =>
        onProgress({ kind: "correct biases", done, total });
      const corrected =
        request.correctBiases === true
          ? await correctBiases(runtime, copy, ranges, samples, options, onLayer)
          : [];
      const report = quantizeStatic(copy, ranges, options);
      return { ...report, graph: serializeModel(copy), corrected };
    },
  };
}
