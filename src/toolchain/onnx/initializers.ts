// Initializers: put in, and those that a caller might replace made constants.

import type { Model } from "./model-file.ts";
import type { GraphProto, TensorProto } from "./proto/onnx_pb.js";
import { traverseGraphs } from "./graph-traversal.ts";

/** The version of the format from which on an initializer need not be an input as well. */
const MIN_IR_VERSION = 4n;

/** The tensor's name must be new in the model. */
export function addInitializer(model: Model, graph: GraphProto, tensor: TensorProto): void {
  if (model.irVersion < MIN_IR_VERSION) freezeInitializers(model);
  graph.initializer.push(tensor);
}

/**
 * Takes initializers off the list of inputs: no session of EdgeTier gives others in their place, and ONNX Runtime folds
 * only what nobody can. @returns how many were listed
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
