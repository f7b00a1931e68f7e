// Finds the ranges of activations: the FP32 graph is run on samples, and what occurs is counted.

import { toolchainErrors } from "../errors.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import type { Model } from "../onnx/model-file.ts";
import { valuesOf } from "../onnx/values.ts";
import { type Calibration, rangeOf } from "./calibration.ts";
import { Histogram } from "./histogram.ts";
import { observe, type Samples } from "./observe.ts";
import { outputBounds } from "./plan.ts";
import type { Range } from "./scheme.ts";
import { activationsToCalibrate, type Ranges, type StaticOptions } from "./static.ts";

/** By the activations' names. It serves every calibration: samples are run once. */
export type Statistics = ReadonlyMap<string, Histogram>;

/**
 * Memory grows neither with the samples nor with the activations' sizes: 64 KiB for each activation, and what one run makes.
 * @param options with most layers in integers of those that the statistics are to serve
 * @param onSample is told how many samples have been run
 * @throws not_quantisable if there is no sample, or a number is not finite; session_failed
 */
export async function collectStatistics(
  runtime: Runtime,
  model: Model,
  samples: Samples,
  options: StaticOptions = {},
  onSample: (done: number) => void = () => {},
): Promise<Statistics> {
  const statistics = new Map(
    activationsToCalibrate(model, options).map((name) => [name, new Histogram()]),
  );
  let done = 0;
  await observe(runtime, model, [...statistics.keys()], samples, (observed) => {
    for (const [name, { data }] of observed) {
      if (statistics.get(name)?.add(data) === false)
        throw toolchainErrors.notQuantisable(
          `${JSON.stringify(name)} has numbers that are not finite on sample ${done + 1}`,
          "Correct the samples, or the model.",
        );
    }
    onSample(++done);
  });
  if (done === 0)
    throw toolchainErrors.notQuantisable(
      "there is no sample to find ranges on",
      "Give some: a hundred or more, like what the model will be asked.",
    );
  return statistics;
}

/** @param model the one that the statistics are of */
export function rangesOf(model: Model, statistics: Statistics, calibration: Calibration): Ranges {
  const table = valuesOf(model);
  const makers = new Map(
    table.values.map(({ name, origin }) => [
      name,
      origin.kind === "node" ? origin.node : undefined,
    ]),
  );
  return new Map(
    [...statistics].map(([name, histogram]): [string, Range] => {
      const range = rangeOf(histogram, calibration);
      const maker = makers.get(name);
      const bounds = maker === undefined ? range : outputBounds(table, maker);
      return [
        name,
        { low: Math.max(range.low, bounds.low), high: Math.min(range.high, bounds.high) },
      ];
    }),
  );
}
