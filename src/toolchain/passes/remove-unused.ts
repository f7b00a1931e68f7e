// Removes nodes and initializers that no output needs, and the declarations of removed values.

import { subgraphsOf, traverseGraphs } from "../onnx/graph-traversal.ts";
import type { Model } from "../onnx/model-file.ts";
import type { GraphProto, NodeProto } from "../onnx/proto/onnx_pb.js";
import type { Use, Value, ValueTable } from "../onnx/value-table.ts";
import { buildSortedValueTable } from "./pass.ts";

/**
 * Keeps the model's inputs, their defaults and its outputs.
 * @returns the number of removed nodes and initializers
 */
export function removeUnused(model: Model): number {
  const table = buildSortedValueTable(model);
  const liveness = analyzeLiveness(model, table);
  const valuesIn = Map.groupBy(table.values, ({ graph }) => graph);
  let removed = 0;
  for (const graph of traverseGraphs(model.graph)) {
    const values = new Map((valuesIn.get(graph) ?? []).map((value) => [value.name, value]));
    const isRead = (name: string) => values.get(name)?.uses.some(liveness.isLiveUse) === true;
    const listed = new Set(graph.input.map(({ name }) => name));
    const before = graph.node.length + graph.initializer.length + graph.sparseInitializer.length;
    graph.node = graph.node.filter(liveness.isLiveNode);
    graph.initializer = graph.initializer.filter(({ name }) => listed.has(name) || isRead(name));
    graph.sparseInitializer = graph.sparseInitializer.filter(({ values: tensor }) =>
      isRead(tensor?.name ?? ""),
    );
    removed +=
      before - graph.node.length - graph.initializer.length - graph.sparseInitializer.length;

    const remaining = new Set([
      ...listed,
      ...graph.initializer.map(({ name }) => name),
      ...graph.node.flatMap(({ output }) => output),
    ]);
    const outputs = new Set(graph.output.map(({ name }) => name));
    graph.valueInfo = graph.valueInfo.filter(
      ({ name }) => remaining.has(name) && !outputs.has(name),
    );
    graph.quantizationAnnotation = graph.quantizationAnnotation.filter(({ tensorName }) =>
      remaining.has(tensorName),
    );
  }
  return removed;
}

interface Liveness {
  readonly isLiveNode: (node: NodeProto) => boolean;
  readonly isLiveUse: (use: Use) => boolean;
}

/**
 * A node is live if a live use reads its outputs. A body's output is live if the node that owns the
 * body is live.
 */
function analyzeLiveness(model: Model, table: ValueTable): Liveness {
  const owners = new Map<GraphProto, NodeProto>(
    table.nodes.flatMap((node) => subgraphsOf(node).map((body) => [body, node] as const)),
  );
  const live = new Set<NodeProto>();
  const isLiveUse = (use: Use) => {
    if (use.kind === "node") return live.has(use.node);
    const owner = owners.get(use.graph);
    return use.graph === model.graph || (owner !== undefined && live.has(owner));
  };
  const isRead = (value: Value | undefined) => value?.uses.some(isLiveUse) === true;
  // In reverse order, readers precede the nodes they read, and a node precedes the nodes of its
  // bodies.
  for (const node of table.nodes.toReversed())
    if (table.outputsOf(node).some(isRead)) live.add(node);
  return { isLiveNode: (node) => live.has(node), isLiveUse };
}
