// Trains a softmax head, with or without hidden layers, on rows of features:
//
//   trainDense({ rows: Float32Array [n, width], width },
//              { softTargets: Float32Array [n, classes], outputs: classes, labels? },
//              { epochs, seed, hidden?: number[], … }): Promise<DenseLayer[]>
//
// The returned layers read raw features: x W + b, a ReLU between layers, logits at the end.

import { seededRandom } from "../seeded-random.ts";
import { type DenseLayer, initDenseLayers } from "./dense-layers.ts";
import { createFixedInputLayer } from "./input-layer.ts";
import { foldStandardization, standardize, fitStandardization } from "./standardize.ts";
import { type TrainTargets, trainNetwork, type TrainOptions } from "./train-network.ts";

export interface FeatureRows {
  /** [n, width], row-major. */
  readonly rows: Float32Array;
  readonly width: number;
}

export interface TrainDenseOptions extends TrainOptions {
  /** Widths of the hidden layers; by default there are none. */
  readonly hidden?: readonly number[] | undefined;
}

/** @throws RangeError if the targets do not match the rows */
export async function trainDense(
  { rows, width }: FeatureRows,
  targets: TrainTargets,
  options: TrainDenseOptions,
): Promise<DenseLayer[]> {
  const standardization = fitStandardization(rows, width);
  const layers = initDenseLayers(
    [width, ...(options.hidden ?? []), targets.outputs],
    seededRandom(options.seed),
  );
  await trainNetwork(
    createFixedInputLayer(standardize(rows, standardization), width),
    layers,
    targets,
    options,
  );
  return layers.map((layer, position) =>
    position === 0 ? foldStandardization(layer, standardization) : layer,
  );
}
