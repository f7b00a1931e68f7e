// A student: dense layers behind a front that is made for its inputs, texts or tables. It is trained, written as a graph, and
// goes on learning with its numbers rounded.

import { seededRandom } from "../seeded-random.ts";
import { type Bags, embeddingBag, randomTable } from "../train/embedding-bag.ts";
import type { ActivationRange } from "../train/gradient-step.ts";
import { fixedRows, type InputLayer } from "../train/input-layer.ts";
import { type DenseLayer, randomLayers } from "../train/network.ts";
import { type Standard, standardised, standardOf } from "../train/standardise.ts";
import { type Targets, trainNetwork, type TrainOptions } from "../train/train-network.ts";
import type { Model } from "../onnx/model-file.ts";
import { bagGraph, tabularGraph } from "./student-graph.ts";

export interface StudentOptions extends Omit<TrainOptions, "ranges"> {
  /** Units of its one hidden layer; none where it is 0. */
  readonly hidden: number;
}

export interface Student {
  /** Changes it. With ranges of its layers' inputs it learns to bear INT8. */
  train(
    targets: Targets,
    options: Omit<StudentOptions, "hidden">,
    ranges?: readonly ActivationRange[],
  ): Promise<void>;
  /** What it has learnt so far, in FP32; a copy. */
  graph(): Model;
  readonly layers: readonly DenseLayer[];
}

export interface TextFront {
  readonly bags: Bags;
  readonly buckets: number;
  /** Numbers of an embedding. */
  readonly dims: number;
  readonly featureDropout: number;
}

const TABLE_DEVIATION = 0.1;

/** On features of texts; its graph takes `ids` INT32 [batch, features]. */
export function textStudent(
  { bags, buckets, dims, featureDropout }: TextFront,
  outputs: number,
  { hidden, seed }: Pick<StudentOptions, "hidden" | "seed">,
): Student {
  const random = seededRandom(seed);
  const table = randomTable(buckets, dims, TABLE_DEVIATION, random);
  const input = (isRounded: boolean) =>
    embeddingBag(bags, table, dims, { dropout: featureDropout, isRounded });
  return studentOf(input, randomLayers(widthsOf(dims, hidden, outputs), random), (layers) =>
    bagGraph(table.slice(), dims, layers, "logits"),
  );
}

/** On rows [n, width]; its graph takes `names.input` FP32 [batch, width]. */
export function tabularStudent(
  rows: Float32Array,
  width: number,
  outputs: number,
  { hidden, seed }: Pick<StudentOptions, "hidden" | "seed">,
  names: { readonly input: string; readonly output: string },
): Student {
  const standard: Standard = standardOf(rows, width);
  const input = fixedRows(standardised(rows, standard), width);
  return studentOf(
    () => input,
    randomLayers(widthsOf(width, hidden, outputs), seededRandom(seed)),
    (layers) => tabularGraph(standard, layers, names.input, names.output),
  );
}

const widthsOf = (inputs: number, hidden: number, outputs: number) => [
  inputs,
  ...(hidden === 0 ? [] : [hidden]),
  outputs,
];

function studentOf(
  input: (isRounded: boolean) => InputLayer,
  layers: readonly DenseLayer[],
  graph: (layers: readonly DenseLayer[]) => Model,
): Student {
  return {
    layers,
    async train(targets, options, ranges) {
      await trainNetwork(input(ranges !== undefined), layers, targets, { ...options, ranges });
    },
    graph: () =>
      graph(
        layers.map((layer) => ({
          ...layer,
          weights: layer.weights.slice(),
          bias: layer.bias.slice(),
        })),
      ),
  };
}
