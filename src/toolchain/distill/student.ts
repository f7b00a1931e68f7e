// Student: dense layers behind an input layer for texts or tables. It can be trained, exported as a
// graph, and fine-tuned with the rounding of INT8.

import type { Model } from "../onnx/model-file.ts";
import { seededRandom } from "../seeded-random.ts";
import { type DenseLayer, initDenseLayers } from "../train/dense-layers.ts";
import { type FeatureBags, createEmbeddingBag, randomEmbeddings } from "../train/embedding-bag.ts";
import type { ActivationRange } from "../train/gradient-step.ts";
import { createFixedInputLayer, type InputLayer } from "../train/input-layer.ts";
import { type Standardization, standardize, fitStandardization } from "../train/standardize.ts";
import { type TrainTargets, trainNetwork, type TrainOptions } from "../train/train-network.ts";
import { buildEmbeddingBagGraph, buildTabularGraph } from "./student-graph.ts";

export interface StudentTrainOptions extends Omit<TrainOptions, "activationRanges"> {
  /** Width of the hidden layer; 0 means no hidden layer. */
  readonly hidden: number;
}

export interface Student {
  /**
   * Trains in place.
   * @param ranges ranges of the layers' inputs; if present, training adapts to INT8
   */
  train(
    targets: TrainTargets,
    options: Omit<StudentTrainOptions, "hidden">,
    ranges?: readonly ActivationRange[],
  ): Promise<void>;
  /** Returns a copy of the current state as an FP32 graph. */
  exportGraph(): Model;
  readonly layers: readonly DenseLayer[];
}

export interface TextFeatures {
  readonly bags: FeatureBags;
  readonly buckets: number;
  /** Length of an embedding. */
  readonly embeddingDims: number;
  readonly featureDropout: number;
}

const EMBEDDING_INIT_STD_DEV = 0.1;

/** Creates a student on hashed n-grams. Its graph has the input `ids` INT32 [batch, features]. */
export function createTextStudent(
  { bags, buckets, embeddingDims, featureDropout }: TextFeatures,
  outputs: number,
  { hidden, seed }: Pick<StudentTrainOptions, "hidden" | "seed">,
): Student {
  const random = seededRandom(seed);
  const table = randomEmbeddings(buckets, embeddingDims, EMBEDDING_INIT_STD_DEV, random);
  const createInputLayer = (isFakeQuantized: boolean) =>
    createEmbeddingBag(bags, table, embeddingDims, { dropout: featureDropout, isFakeQuantized });
  return createStudent(
    createInputLayer,
    initDenseLayers(layerWidths(embeddingDims, hidden, outputs), random),
    (layers) => buildEmbeddingBagGraph(table.slice(), embeddingDims, layers, "logits"),
  );
}

/**
 * Creates a student on rows [n, width]. Its graph has the input `names.input` FP32 [batch, width].
 */
export function createTabularStudent(
  rows: Float32Array,
  width: number,
  outputs: number,
  { hidden, seed }: Pick<StudentTrainOptions, "hidden" | "seed">,
  names: { readonly input: string; readonly output: string },
): Student {
  const standardization: Standardization = fitStandardization(rows, width);
  const input = createFixedInputLayer(standardize(rows, standardization), width);
  return createStudent(
    () => input,
    initDenseLayers(layerWidths(width, hidden, outputs), seededRandom(seed)),
    (layers) => buildTabularGraph(standardization, layers, names.input, names.output),
  );
}

const layerWidths = (inputs: number, hidden: number, outputs: number) => [
  inputs,
  ...(hidden === 0 ? [] : [hidden]),
  outputs,
];

function createStudent(
  createInputLayer: (isFakeQuantized: boolean) => InputLayer,
  layers: readonly DenseLayer[],
  buildGraph: (layers: readonly DenseLayer[]) => Model,
): Student {
  return {
    layers,
    async train(targets, options, ranges) {
      await trainNetwork(createInputLayer(ranges !== undefined), layers, targets, {
        ...options,
        activationRanges: ranges,
      });
    },
    exportGraph: () =>
      buildGraph(
        layers.map((layer) => ({
          ...layer,
          weights: layer.weights.slice(),
          bias: layer.bias.slice(),
        })),
      ),
  };
}
