// All that is done to quantise a graph, in its order: fold what belongs to layers into them, equalise, calibrate, choose layers,
// correct biases, make integers.

import { toolchainErrors } from "../errors.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { type Model, readModel, writeModel } from "../onnx/model-file.ts";
import { foldBatchNorm } from "../passes/fold-batch-norm.ts";
import { mergeBias } from "../passes/merge-bias.ts";
import { correctBiases, type CorrectedBias } from "./bias-correction.ts";
import { collectStatistics, rangesOf } from "./calibrate.ts";
import type { Calibration } from "./calibration.ts";
import { quantiseDynamic } from "./dynamic.ts";
import { equalise, type Equalised, type EqualiseOptions } from "./equalise.ts";
import type { Samples } from "./observe.ts";
import type { Quantiser } from "./sensitivity.ts";
import { prepare, type Quantised, quantiseStatic, type StaticOptions } from "./static.ts";

export interface QuantiseRequest extends StaticOptions, EqualiseOptions {
  readonly mode: "dynamic" | "static";
  /** What `static` finds its ranges on. */
  readonly samples?: Samples | undefined;
  readonly calibration?: Calibration | undefined;
  readonly equalise?: boolean | undefined;
  /** Of `static` only. */
  readonly correctBiases?: boolean | undefined;
}

export type QuantiseProgress =
  | { readonly step: "calibrate"; readonly done: number; readonly of?: undefined }
  | { readonly step: "correct biases"; readonly done: number; readonly of: number };

export interface QuantisedGraph extends Quantised {
  readonly graph: Uint8Array;
  readonly corrected: readonly CorrectedBias[];
}

export interface Prepared {
  /** The graph in FP32 that others are made from: BatchNormalization and biases in their layers, equalised if that was asked for, and every node with a name. */
  readonly original: Uint8Array;
  readonly equalised: readonly Equalised[];
  /** For `rankLayers`. Biases are as they are. */
  readonly quantiser: Quantiser;
  /** @param keep further operators or nodes that stay in FP32 @throws not_quantisable, session_failed */
  make(keep?: readonly string[]): Promise<QuantisedGraph>;
}

/**
 * Does what does not depend on the layers that are kept: samples are run once, however many candidates are made.
 * @param model is not changed
 * @throws not_quantisable, session_failed
 */
export async function prepareQuantisation(
  runtime: Runtime,
  model: Model,
  request: QuantiseRequest,
  onProgress: (progress: QuantiseProgress) => void = () => {},
): Promise<Prepared> {
  const { mode, samples, calibration = { method: "minmax" } } = request;
  const own = readModel(writeModel(model));
  foldBatchNorm(own);
  mergeBias(own);
  prepare(own, request);
  const equalised = request.equalise === true ? equalise(own, request) : [];
  const original = writeModel(own);
  const withKept = (keep: readonly string[]): StaticOptions => ({
    ...request,
    keep: [...(request.keep ?? []), ...keep],
  });
  if (mode === "dynamic") {
    return {
      original,
      equalised,
      quantiser: (copy, selection) => quantiseDynamic(copy, { ...request, ...selection }),
      make: async (keep = []) => {
        const copy = readModel(original);
        const quantised = quantiseDynamic(copy, withKept(keep));
        return { ...quantised, graph: writeModel(copy), corrected: [] };
      },
    };
  }
  if (samples === undefined)
    throw toolchainErrors.notQuantisable(
      "static quantisation finds its ranges on samples, and there are none",
      "Give some, or quantise dynamically.",
    );
  const statistics = await collectStatistics(runtime, own, samples, request, (done) =>
    onProgress({ step: "calibrate", done }),
  );
  const ranges = rangesOf(own, statistics, calibration);
  return {
    original,
    equalised,
    quantiser: (copy, selection) => quantiseStatic(copy, ranges, { ...request, ...selection }),
    make: async (keep = []) => {
      const copy = readModel(original);
      const options = withKept(keep);
      const onLayer = (done: number, of: number) =>
        onProgress({ step: "correct biases", done, of });
      const corrected =
        request.correctBiases === true
          ? await correctBiases(runtime, copy, ranges, samples, options, onLayer)
          : [];
      const quantised = quantiseStatic(copy, ranges, options);
      return { ...quantised, graph: writeModel(copy), corrected };
    },
  };
}
