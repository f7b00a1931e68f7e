// Removes what no output needs: nodes, initializers, and what is declared of values that are gone.

import type { Model } from "../onnx/model-file.ts";
import type { GraphProto, NodeProto } from "../onnx/proto/onnx_pb.js";
import type { Use, Value, ValueTable } from "../onnx/value-table.ts";
import { subgraphsOf, traverseGraphs } from "../onnx/graph-traversal.ts";
import { buildSortedValueTable } from "./pass.ts";

/** Inputs and outputs of the model stay, also the defaults of inputs. @returns nodes and initializers removed */
export function removeUnused(model: Model): number {
  const table = buildSortedValueTable(model);
  const isLive = analyzeLiveness(model, table);
  const valuesIn = Map.groupBy(table.values, ({ graph }) => graph);
  let removed = 0;
  for (const graph of traverseGraphs(model.graph)) {
    const values = new Map((valuesIn.get(graph) ?? []).map((value) => [value.name, value]));
    const isRead = (name: string) => values.get(name)?.uses.some(isLive.isLiveUse) === true;
    const listed = new Set(graph.input.map(({ name }) => name));
    const before = graph.node.length + graph.initializer.length + graph.sparseInitializer.length;
    graph.node = graph.node.filter(isLive.isLiveNode);
    graph.initializer = graph.initializer.filter(({ name }) => listed.has(name) || isRead(name));
    graph.sparseInitializer = graph.sparseInitializer.filter(({ values: tensor }) =>
      isRead(tensor?.name ?? ""),
    );
    removed +=
      before - graph.node.length - graph.initializer.length - graph.sparseInitializer.length;

    const left = new Set([
      ...listed,
      ...graph.initializer.map(({ name }) => name),
      ...graph.node.flatMap(({ output }) => output),
    ]);
    const outputs = new Set(graph.output.map(({ name }) => name));
    graph.valueInfo = graph.valueInfo.filter(({ name }) => left.has(name) && !outputs.has(name));
    graph.quantizationAnnotation = graph.quantizationAnnotation.filter(({ tensorName }) =>
      left.has(tensorName),
    );
  }
  return removed;
}

interface Liveness {
  readonly isLiveNode: (node: NodeProto) => boolean;
  readonly isLiveUse: (use: Use) => boolean;
}

/** A node is live if something live reads what it makes; an output of a body is read if the node with the body is live. */
function analyzeLiveness(model: Model, table: ValueTable): Liveness {
  const owners = new Map<GraphProto, NodeProto>(
    table.nodes.flatMap((node) => subgraphsOf(node).map((body) => [body, node] as const)),
  );
  const live = new Set<NodeProto>();
  const use = (one: Use) => {
    if (one.kind === "node") return live.has(one.node);
    const owner = owners.get(one.graph);
    return one.graph === model.graph || (owner !== undefined && live.has(owner));
  };
  const isRead = (value: Value | undefined) => value?.uses.some(use) === true;
  // From the last to the first: readers come before what they read, and a node before what is in its bodies.
  for (const node of table.nodes.toReversed())
    if (table.outputsOf(node).some(isRead)) live.add(node);
  return { isLiveNode: (node) => live.has(node), isLiveUse: use };
}
