// Where a graph narrows to one value: every way from its inputs to its outputs leads through it. In the words of compilers,
// it dominates the outputs; here it is the only value that is alive between two nodes.
//
// What follows from the inputs without parameters and products, such as an attention mask, does not count: whoever goes on
// behind the value computes it again.

import { readConstantTensor } from "../onnx/constants.ts";
import { extractSubgraph } from "../onnx/extract-subgraph.ts";
import type { Model } from "../onnx/model-file.ts";
import { sortTopologically } from "../onnx/topological-sort.ts";
import type { NodeProto } from "../onnx/proto/onnx_pb.js";
import { type Value, type ValueTable, buildValueTable } from "../onnx/value-table.ts";
import { subgraphsOf, traverseGraphs } from "../onnx/graph-traversal.ts";

const MAC_OPERATORS = /Conv|MatMul|Gemm|Attention|Einsum|LSTM|GRU|RNN/;

/** FP32 values in the graph's order; no input and no output is among them. */
export function findDominatingValues(model: Model): string[] {
  const part = extractSubgraph(model, { outputs: model.graph.output.map(({ name }) => name) });
  sortTopologically(part);
  const table = buildValueTable(part);
  const heavy = findComputedValues(part, table);
  const lastUses = findLastUses(part, table);
  const outputs = new Set(part.graph.output.map(({ name }) => name));

  const found = new Set<Value>();
  const live = new Set<Value>();
  part.graph.node.forEach((node, position) => {
    for (const value of table.outputsOf(node))
      if (value !== undefined && heavy.has(value)) live.add(value);
    for (const value of live) if ((lastUses.get(value) ?? -1) <= position) live.delete(value);
    const [only] = live;
    if (live.size === 1 && only?.type === "float" && !outputs.has(only.name)) found.add(only);
  });
  return [...found]
    .filter((value) => isOnEveryPath(value, part, table, heavy))
    .map(({ name }) => name);
}

/** Whether nothing behind it begins anew from an input. */
function isOnEveryPath(
  value: Value,
  { graph }: Model,
  table: ValueTable,
  heavy: ReadonlySet<Value>,
): boolean {
  const behind = new Set([value]);
  const first = graph.node.findIndex((node) => table.outputsOf(node).includes(value)) + 1;
  return graph.node.slice(first).every((node) => {
    const follows = valuesReadBy(node, graph, table).some((read) => behind.has(read));
    const made = table.outputsOf(node).filter((one) => one !== undefined);
    if (follows) for (const one of made) behind.add(one);
    return follows || !made.some((one) => heavy.has(one));
  });
}

/** Values of the main graph that depend on an input and take parameters or products to make. */
function findComputedValues({ graph }: Model, table: ValueTable): ReadonlySet<Value> {
  const depends = new Set(
    table.values.filter(({ origin, graph: own }) => own === graph && origin.kind === "input"),
  );
  const heavy = new Set<Value>();
  for (const node of graph.node) {
    const read = valuesReadBy(node, graph, table);
    if (!read.some((value) => depends.has(value))) continue;
    const isHeavy = isComputeNode(node, table) || read.some((value) => heavy.has(value));
    for (const value of table.outputsOf(node)) {
      if (value === undefined) continue;
      depends.add(value);
      if (isHeavy) heavy.add(value);
    }
  }
  return heavy;
}

function isComputeNode(node: NodeProto, table: ValueTable): boolean {
  if (MAC_OPERATORS.test(node.opType) || subgraphsOf(node).length > 0) return true;
  return table.inputsOf(node).some((value) => {
    const tensor = value?.type === "int64" ? undefined : readConstantTensor(value);
    return tensor !== undefined && tensor.dims.reduce((product, size) => product * size, 1n) > 1n;
  });
}

/** By the position of the node that reads a value last; infinite for the graph's outputs. */
function findLastUses({ graph }: Model, table: ValueTable): ReadonlyMap<Value, number> {
  const last = new Map<Value, number>();
  graph.node.forEach((node, position) =>
    valuesReadBy(node, graph, table).forEach((value) => last.set(value, position)),
  );
  for (const value of table.outputsOfGraph(graph)) last.set(value, Number.POSITIVE_INFINITY);
  return last;
}

/** Values of the main graph that a node or its bodies read. */
function valuesReadBy(node: NodeProto, main: Model["graph"], table: ValueTable): Value[] {
  const within = subgraphsOf(node)
    .flatMap((body) => [...traverseGraphs(body)])
    .flatMap((body) => [
      ...body.node.flatMap((one) => table.inputsOf(one)),
      ...table.outputsOfGraph(body),
    ]);
  return [...table.inputsOf(node), ...within].flatMap((value) =>
    value?.graph === main ? [value] : [],
  );
}
