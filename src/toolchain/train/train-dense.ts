// Trains a softmax head, with a hidden layer or without, on rows of features:
//
//   trainDense({ rows: Float32Array [n, width], width }, { soft: Float32Array [n, classes], outputs: classes, labels? },
//              { epochs, seed, hidden?: number[], … }): Promise<DenseLayer[]>
//
// The layers take features as they are: x W + b, a ReLU in between, logits at the end.

import { seededRandom } from "../seeded-random.ts";
import { createFixedInputLayer } from "./input-layer.ts";
import { type DenseLayer, initDenseLayers } from "./dense-layers.ts";
import { foldStandardization, standardize, fitStandardization } from "./standardize.ts";
import { type TrainTargets, trainNetwork, type TrainOptions } from "./train-network.ts";

export interface FeatureRows {
  /** [n, width], row-major. */
  readonly rows: Float32Array;
  readonly width: number;
}

export interface TrainDenseOptions extends TrainOptions {
  /** Units of the hidden layers; none by default. */
  readonly hidden?: readonly number[] | undefined;
}

/** @throws RangeError for targets that are not one a row */
export async function trainDense(
  { rows, width }: FeatureRows,
  targets: TrainTargets,
  options: TrainDenseOptions,
): Promise<DenseLayer[]> {
  const standard = fitStandardization(rows, width);
  const layers = initDenseLayers(
    [width, ...(options.hidden ?? []), targets.outputs],
    seededRandom(options.seed),
  );
  await trainNetwork(
    createFixedInputLayer(standardize(rows, standard), width),
    layers,
    targets,
    options,
  );
  return layers.map((layer, position) =>
    position === 0 ? foldStandardization(layer, standard) : layer,
  );
}
