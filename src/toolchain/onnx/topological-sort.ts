// Sorts nodes topologically. The format requires this order, but ONNX Runtime does not, and some of
// its own tools write files in another order.

import { subgraphsOf, traverseGraphs } from "./graph-traversal.ts";
import type { Model } from "./model-file.ts";
import type { GraphProto, NodeProto } from "./proto/onnx_pb.js";

/** Sorts the nodes of all graphs. Nodes on a cycle remain in an invalid order. */
export function sortTopologically(model: Model): void {
  for (const graph of traverseGraphs(model.graph)) sortGraph(graph);
}

function sortGraph(graph: GraphProto): void {
  const producers = new Map(
    graph.node.flatMap((node) => node.output.map((name) => [name, node] as const)),
  );
  producers.delete("");
  const sorted: NodeProto[] = [];
  const seen = new Set<NodeProto>();
  // An explicit stack replaces recursion, because graphs can be thousands of nodes deep.
  const path: { readonly node: NodeProto; readonly pending: NodeProto[] }[] = [];
  const push = (node: NodeProto) => {
    if (seen.has(node)) return;
    seen.add(node);
    path.push({
      node,
      pending: [...namesReadBy(node)].flatMap((name) => producers.get(name) ?? []).toReversed(),
    });
  };
  for (const node of graph.node) {
    push(node);
    for (let last = path.at(-1); last !== undefined; last = path.at(-1)) {
      const next = last.pending.pop();
      if (next !== undefined) {
        push(next);
      } else {
        sorted.push(last.node);
        path.pop();
      }
    }
  }
  graph.node = sorted;
}

/** Yields the names that a node reads, directly or from within its bodies. */
function* namesReadBy(node: NodeProto): Generator<string> {
  yield* node.input;
  for (const body of subgraphsOf(node)) {
    for (const { node, output } of traverseGraphs(body)) {
      for (const { input } of node) yield* input;
      for (const { name } of output) yield name;
    }
  }
}
