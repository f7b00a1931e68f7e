// Adds initializers, and turns initializers that callers may override into constants.

import { traverseGraphs } from "./graph-traversal.ts";
import type { Model } from "./model-file.ts";
import type { GraphProto, TensorProto } from "./proto/onnx_pb.js";

/** First version of the ONNX format in which an initializer need not also be an input. */
const MIN_IR_VERSION = 4n;

/** Adds a tensor to the graph's initializers. Its name must be unique in the model. */
export function addInitializer(model: Model, graph: GraphProto, tensor: TensorProto): void {
  if (model.irVersion < MIN_IR_VERSION) freezeInitializers(model);
  graph.initializer.push(tensor);
}

/**
 * Removes initializers from the inputs, which makes them constants. EdgeTier sessions never
 * override an initializer, and ONNX Runtime folds only initializers that callers cannot override.
 * @returns how many initializers were listed as inputs
 */
export function freezeInitializers(model: Model): number {
  let count = 0;
  for (const graph of traverseGraphs(model.graph)) {
    const names = new Set(graph.initializer.map(({ name }) => name));
    const inputs = graph.input.filter(({ name }) => !names.has(name));
    count += graph.input.length - inputs.length;
    graph.input = inputs;
  }
  if (model.irVersion < MIN_IR_VERSION) model.irVersion = MIN_IR_VERSION;
  return count;
}
