// Dominating values: finds the values of a graph that every path from its inputs to its outputs passes through. In compiler
// terms, such a value dominates the outputs; it is the only live value between two nodes.
//
// Values that follow from the inputs without parameters and products, such as an attention mask, do not count. The second
// stage computes them again.

import { readConstantTensor } from "../onnx/constants.ts";
import { extractSubgraph } from "../onnx/extract-subgraph.ts";
import { subgraphsOf, traverseGraphs } from "../onnx/graph-traversal.ts";
import type { Model } from "../onnx/model-file.ts";
import type { NodeProto } from "../onnx/proto/onnx_pb.js";
import { sortTopologically } from "../onnx/topological-sort.ts";
import { type Value, type ValueTable, buildValueTable } from "../onnx/value-table.ts";

const MAC_OPERATORS = /Conv|MatMul|Gemm|Attention|Einsum|LSTM|GRU|RNN/;

/** Returns FP32 values in the graph's order, without inputs and outputs. */
export function findDominatingValues(model: Model): string[] {
  const part = extractSubgraph(model, { outputs: model.graph.output.map(({ name }) => name) });
  sortTopologically(part);
  const table = buildValueTable(part);
  const computed = findComputedValues(part, table);
  const lastUses = findLastUses(part, table);
  const outputs = new Set(part.graph.output.map(({ name }) => name));

  const found = new Set<Value>();
  const live = new Set<Value>();
  part.graph.node.forEach((node, position) => {
    for (const value of table.outputsOf(node))
      if (value !== undefined && computed.has(value)) live.add(value);
    for (const value of live) if ((lastUses.get(value) ?? -1) <= position) live.delete(value);
    const [only] = live;
    if (live.size === 1 && only?.type === "float" && !outputs.has(only.name)) found.add(only);
  });
  return [...found]
    .filter((value) => isOnEveryPath(value, part, table, computed))
    .map(({ name }) => name);
}

/** Whether no later node computes from an input alone. */
function isOnEveryPath(
  value: Value,
  { graph }: Model,
  table: ValueTable,
  computed: ReadonlySet<Value>,
): boolean {
  const dependents = new Set([value]);
  const first = graph.node.findIndex((node) => table.outputsOf(node).includes(value)) + 1;
  return graph.node.slice(first).every((node) => {
    const dependsOnValue = valuesReadBy(node, graph, table).some((read) => dependents.has(read));
    const outputs = table.outputsOf(node).filter((output) => output !== undefined);
    if (dependsOnValue) for (const output of outputs) dependents.add(output);
    return dependsOnValue || !outputs.some((output) => computed.has(output));
  });
}

/** Returns values of the main graph that depend on an input through parameters or products. */
function findComputedValues({ graph }: Model, table: ValueTable): ReadonlySet<Value> {
  const inputDependent = new Set(
    table.values.filter((value) => value.graph === graph && value.origin.kind === "input"),
  );
  const computed = new Set<Value>();
  for (const node of graph.node) {
    const reads = valuesReadBy(node, graph, table);
    if (!reads.some((value) => inputDependent.has(value))) continue;
    const isComputed = isComputeNode(node, table) || reads.some((value) => computed.has(value));
    for (const value of table.outputsOf(node)) {
      if (value === undefined) continue;
      inputDependent.add(value);
      if (isComputed) computed.add(value);
    }
  }
  return computed;
}

function isComputeNode(node: NodeProto, table: ValueTable): boolean {
  if (MAC_OPERATORS.test(node.opType) || subgraphsOf(node).length > 0) return true;
  return table.inputsOf(node).some((value) => {
    const tensor = value?.type === "int64" ? undefined : readConstantTensor(value);
    return tensor !== undefined && tensor.dims.reduce((product, size) => product * size, 1n) > 1n;
  });
}

/** Returns the position of the last node that reads each value; infinite for the graph's outputs. */
function findLastUses({ graph }: Model, table: ValueTable): ReadonlyMap<Value, number> {
  const last = new Map<Value, number>();
  graph.node.forEach((node, position) =>
    valuesReadBy(node, graph, table).forEach((value) => last.set(value, position)),
  );
  for (const value of table.outputsOfGraph(graph)) last.set(value, Number.POSITIVE_INFINITY);
  return last;
}

/** Returns values of the main graph that a node or its subgraphs read. */
function valuesReadBy(node: NodeProto, main: Model["graph"], table: ValueTable): Value[] {
  const within = subgraphsOf(node)
    .flatMap((body) => [...traverseGraphs(body)])
    .flatMap((body) => [
      ...body.node.flatMap((inner) => table.inputsOf(inner)),
      ...table.outputsOfGraph(body),
    ]);
  return [...table.inputsOf(node), ...within].flatMap((value) =>
    value?.graph === main ? [value] : [],
  );
}
