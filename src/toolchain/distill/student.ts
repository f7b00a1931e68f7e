// A student: dense layers behind a front that is made for its inputs, texts or tables. It is trained, written as a graph, and
// goes on learning with its numbers rounded.

import { seededRandom } from "../seeded-random.ts";
import { type FeatureBags, createEmbeddingBag, randomEmbeddings } from "../train/embedding-bag.ts";
import type { ActivationRange } from "../train/gradient-step.ts";
import { createFixedInputLayer, type InputLayer } from "../train/input-layer.ts";
import { type DenseLayer, initDenseLayers } from "../train/dense-layers.ts";
import { type Standardization, standardize, fitStandardization } from "../train/standardize.ts";
import { type TrainTargets, trainNetwork, type TrainOptions } from "../train/train-network.ts";
import type { Model } from "../onnx/model-file.ts";
import { buildEmbeddingBagGraph, buildTabularGraph } from "./student-graph.ts";

export interface StudentTrainOptions extends Omit<TrainOptions, "activationRanges"> {
  /** Units of its one hidden layer; none where it is 0. */
  readonly hidden: number;
}

export interface Student {
  /** Changes it. With ranges of its layers' inputs it learns to bear INT8. */
  train(
    targets: TrainTargets,
    options: Omit<StudentTrainOptions, "hidden">,
    ranges?: readonly ActivationRange[],
  ): Promise<void>;
  /** What it has learnt so far, in FP32; a copy. */
  exportGraph(): Model;
  readonly layers: readonly DenseLayer[];
}

export interface TextFeatures {
  readonly bags: FeatureBags;
  readonly buckets: number;
  /** Numbers of an embedding. */
  readonly embeddingDims: number;
  readonly featureDropout: number;
}

const EMBEDDING_INIT_STD_DEV = 0.1;

/** On features of texts; its graph takes `ids` INT32 [batch, features]. */
export function createTextStudent(
  { bags, buckets, embeddingDims: dims, featureDropout }: TextFeatures,
  outputs: number,
  { hidden, seed }: Pick<StudentTrainOptions, "hidden" | "seed">,
): Student {
  const random = seededRandom(seed);
  const table = randomEmbeddings(buckets, dims, EMBEDDING_INIT_STD_DEV, random);
  const input = (isRounded: boolean) =>
    createEmbeddingBag(bags, table, dims, { dropout: featureDropout, isFakeQuantized: isRounded });
  return createStudent(
    input,
    initDenseLayers(layerWidths(dims, hidden, outputs), random),
    (layers) => buildEmbeddingBagGraph(table.slice(), dims, layers, "logits"),
  );
}

/** On rows [n, width]; its graph takes `names.input` FP32 [batch, width]. */
export function createTabularStudent(
  rows: Float32Array,
  width: number,
  outputs: number,
  { hidden, seed }: Pick<StudentTrainOptions, "hidden" | "seed">,
  names: { readonly input: string; readonly output: string },
): Student {
  const standard: Standardization = fitStandardization(rows, width);
  const input = createFixedInputLayer(standardize(rows, standard), width);
  return createStudent(
    () => input,
    initDenseLayers(layerWidths(width, hidden, outputs), seededRandom(seed)),
    (layers) => buildTabularGraph(standard, layers, names.input, names.output),
  );
}

const layerWidths = (inputs: number, hidden: number, outputs: number) => [
  inputs,
  ...(hidden === 0 ? [] : [hidden]),
  outputs,
];

function createStudent(
  input: (isRounded: boolean) => InputLayer,
  layers: readonly DenseLayer[],
  graph: (layers: readonly DenseLayer[]) => Model,
): Student {
  return {
    layers,
    async train(targets, options, ranges) {
      await trainNetwork(input(ranges !== undefined), layers, targets, {
        ...options,
        activationRanges: ranges,
      });
    },
    exportGraph: () =>
      graph(
        layers.map((layer) => ({
          ...layer,
          weights: layer.weights.slice(),
          bias: layer.bias.slice(),
        })),
      ),
  };
}
