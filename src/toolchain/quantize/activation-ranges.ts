// Finds the ranges of activations by running the FP32 graph on samples and counting the values.

import type { Runtime } from "../../runtime/runtime.ts";
import { toolchainErrors } from "../errors.ts";
import type { Model } from "../onnx/model-file.ts";
import { buildValueTable } from "../onnx/value-table.ts";
import { captureActivations, type InputSamples } from "./capture-activations.ts";
import { Histogram } from "./histogram.ts";
import type { ValueRange } from "./quantization-scheme.ts";
import { type RangeMethod, selectRange } from "./range-selection.ts";
import { outputRange } from "./static-plan.ts";
import {
  findActivationsNeedingRanges,
  type ActivationRanges,
  type StaticOptions,
} from "./static-quantization.ts";

/** Histograms by activation name. They serve every range method, so samples run only once. */
export type ActivationHistograms = ReadonlyMap<string, Histogram>;

/**
 * Collects histograms in constant memory: 64 KiB per activation, plus the outputs of one run.
 * @param options the candidate options with the most integer layers
 * @param onSample receives the number of completed samples
 * @throws not_quantizable if there are no samples, or a value is not finite; session_failed
 */
export async function collectHistograms(
  runtime: Runtime,
  model: Model,
  samples: InputSamples,
  options: StaticOptions = {},
  onSample: (sampleCount: number) => void = () => {},
): Promise<ActivationHistograms> {
  const histograms = new Map(
    findActivationsNeedingRanges(model, options).map((name) => [name, new Histogram()]),
  );
  let sampleCount = 0;
  await captureActivations(runtime, model, [...histograms.keys()], samples, (observed) => {
    for (const [name, { data }] of observed) {
      if (histograms.get(name)?.add(data) === false)
        throw toolchainErrors.notQuantizable(
          `${JSON.stringify(name)} has non-finite values for sample ${sampleCount + 1}`,
          "Correct the samples, or the model.",
        );
    }
    onSample(++sampleCount);
  });
  if (sampleCount === 0)
    throw toolchainErrors.notQuantizable(
      "static quantization requires samples, but there are none",
      "Give a hundred samples or more, similar to production requests.",
    );
  return histograms;
}

/** @param model the model of the histograms */
export function selectRanges(
  model: Model,
  histograms: ActivationHistograms,
  method: RangeMethod,
): ActivationRanges {
  const table = buildValueTable(model);
  const producers = new Map(
    table.values.map(({ name, origin }) => [
      name,
      origin.kind === "node" ? origin.node : undefined,
    ]),
  );
  return new Map(
    [...histograms].map(([name, histogram]): [string, ValueRange] => {
      const range = selectRange(histogram, method);
      const producer = producers.get(name);
      const bounds = producer === undefined ? range : outputRange(table, producer);
      return [
        name,
        { low: Math.max(range.low, bounds.low), high: Math.min(range.high, bounds.high) },
      ];
    }),
  );
}
