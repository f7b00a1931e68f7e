// Finds the ranges of activations: the FP32 graph is run on samples, and what occurs is counted.

import { toolchainErrors } from "../errors.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import type { Model } from "../onnx/model-file.ts";
import { buildValueTable } from "../onnx/value-table.ts";
import { type RangeMethod, selectRange } from "./range-selection.ts";
import { Histogram } from "./histogram.ts";
import { captureActivations, type InputSamples } from "./capture-activations.ts";
import { outputRange } from "./static-plan.ts";
import type { ValueRange } from "./quantization-scheme.ts";
import {
  findActivationsNeedingRanges,
  type ActivationRanges,
  type StaticOptions,
} from "./static-quantization.ts";

/** By the activations' names. It serves every calibration: samples are run once. */
export type ActivationHistograms = ReadonlyMap<string, Histogram>;

/**
 * Memory grows neither with the samples nor with the activations' sizes: 64 KiB for each activation, and what one run makes.
 * @param options with most layers in integers of those that the statistics are to serve
 * @param onSample is told how many samples have been run
 * @throws not_quantizable if there is no sample, or a number is not finite; session_failed
 */
export async function collectHistograms(
  runtime: Runtime,
  model: Model,
  samples: InputSamples,
  options: StaticOptions = {},
  onSample: (done: number) => void = () => {},
): Promise<ActivationHistograms> {
  const statistics = new Map(
    findActivationsNeedingRanges(model, options).map((name) => [name, new Histogram()]),
  );
  let done = 0;
  await captureActivations(runtime, model, [...statistics.keys()], samples, (observed) => {
    for (const [name, { data }] of observed) {
      if (statistics.get(name)?.add(data) === false)
        throw toolchainErrors.notQuantizable(
          `${JSON.stringify(name)} has numbers that are not finite on sample ${done + 1}`,
          "Correct the samples, or the model.",
        );
    }
    onSample(++done);
  });
  if (done === 0)
    throw toolchainErrors.notQuantizable(
      "there is no sample to find ranges on",
      "Give some: a hundred or more, like what the model will be asked.",
    );
  return statistics;
}

/** @param model the one that the statistics are of */
export function selectRanges(
  model: Model,
  statistics: ActivationHistograms,
  calibration: RangeMethod,
): ActivationRanges {
  const table = buildValueTable(model);
  const makers = new Map(
    table.values.map(({ name, origin }) => [
      name,
      origin.kind === "node" ? origin.node : undefined,
    ]),
  );
  return new Map(
    [...statistics].map(([name, histogram]): [string, ValueRange] => {
      const range = selectRange(histogram, calibration);
      const maker = makers.get(name);
      const bounds = maker === undefined ? range : outputRange(table, maker);
      return [
        name,
        { low: Math.max(range.low, bounds.low), high: Math.min(range.high, bounds.high) },
      ];
    }),
  );
}
