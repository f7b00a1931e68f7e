// Infers the ranks of values (their numbers of dimensions), without running the graph.

import { readConstantTensor } from "./constants.ts";
import { traverseGraphs } from "./graph-traversal.ts";
import type { Model } from "./model-file.ts";
import { isOnnxOp } from "./nodes.ts";
import type { Value, ValueTable } from "./value-table.ts";

/** Operators whose output has the rank of their first input. */
const RANK_PRESERVING_OPS = [
  "Relu",
  "LeakyRelu",
  "PRelu",
  "Elu",
  "Selu",
  "Gelu",
  "Sigmoid",
  "HardSigmoid",
  "HardSwish",
  "Tanh",
  "Erf",
  "Clip",
  "Softmax",
  "LogSoftmax",
  "Dropout",
  "Identity",
  "Cast",
  "BatchNormalization",
  "LayerNormalization",
  "Transpose",
  "QuantizeLinear",
  "DequantizeLinear",
];
const BROADCASTING_OPS = ["Add", "Sub", "Mul", "Div", "Pow", "Max", "Min"];

/** @returns a lookup that yields undefined if a value's rank is unknown */
export function inferRanks(
  model: Model,
  table: ValueTable,
): (value: Value | undefined) => number | undefined {
  const declared = new Map(
    [...traverseGraphs(model.graph)].map((graph) => [
      graph,
      new Map(
        [...graph.valueInfo, ...graph.output, ...graph.input].map(({ name, type }) => [
          name,
          type?.value,
        ]),
      ),
    ]),
  );
  const known = new Map<Value, number | undefined>();
  // The table is in topological order, so the ranks of a node's inputs are already known.
  for (const value of table.values) known.set(value, declaredRank(value) ?? inferredRank(value));
  return (value) => value && known.get(value);

  function declaredRank({ graph, name }: Value): number | undefined {
    const type = declared.get(graph)?.get(name);
    return type?.case === "tensorType" ? type.value.shape?.dim.length : undefined;
  }

  function inferredRank(value: Value): number | undefined {
    const constant = readConstantTensor(value);
    if (constant !== undefined) return constant.dims.length;
    if (value.origin.kind !== "node" || value.origin.position !== 0) return undefined;
    const { node } = value.origin;
    const inputs = table.inputsOf(node);
    const [first, second] = inputs.map((input) =>
      input === undefined ? undefined : known.get(input),
    );
    if (isOnnxOp(node, "Gemm", "Flatten")) return 2;
    if (isOnnxOp(node, "Conv", ...RANK_PRESERVING_OPS)) return first;
    if (isOnnxOp(node, "MatMul") && first !== undefined && second !== undefined)
      return first >= 2 && second >= 2 ? Math.max(first, second) : undefined;
    if (isOnnxOp(node, ...BROADCASTING_OPS) && first !== undefined && second !== undefined)
      return Math.max(first, second);
    if (isOnnxOp(node, "Reshape")) return rankOfShape(readConstantTensor(inputs[1])?.dims);
    return undefined;
  }
}

const rankOfShape = (dims: readonly bigint[] | undefined): number | undefined =>
  dims?.length === 1 ? Number(dims[0]) : undefined;
