// Puts nodes in an order in which each comes after those that it reads from. The format asks for that, but ONNX Runtime
// does not, and some of its own tools write files in another order.

import type { Model } from "./model-file.ts";
import type { GraphProto, NodeProto } from "./proto/onnx_pb.js";
import { subgraphsOf, traverseGraphs } from "./graph-traversal.ts";

/** Changes the order where it has to. Nodes that read from each other in a circle stay in one that is wrong. */
export function sortTopologically(model: Model): void {
  for (const graph of traverseGraphs(model.graph)) sortGraph(graph);
}

function sortGraph(graph: GraphProto): void {
  const makers = new Map(
    graph.node.flatMap((node) => node.output.map((name) => [name, node] as const)),
  );
  makers.delete("");
  const sorted: NodeProto[] = [];
  const seen = new Set<NodeProto>();
  // Depth first, without recursion: graphs are thousands of nodes long.
  const path: { readonly node: NodeProto; readonly before: NodeProto[] }[] = [];
  const enter = (node: NodeProto) => {
    if (seen.has(node)) return;
    seen.add(node);
    path.push({
      node,
      before: [...namesReadBy(node)].flatMap((name) => makers.get(name) ?? []).toReversed(),
    });
  };
  for (const node of graph.node) {
    enter(node);
    for (let last = path.at(-1); last !== undefined; last = path.at(-1)) {
      const next = last.before.pop();
      if (next !== undefined) {
        enter(next);
      } else {
        sorted.push(last.node);
        path.pop();
      }
    }
  }
  graph.node = sorted;
}

/** By the node itself, or from outside of its bodies. */
function* namesReadBy(node: NodeProto): Generator<string> {
  yield* node.input;
  for (const body of subgraphsOf(node)) {
    for (const { node, output } of traverseGraphs(body)) {
      for (const { input } of node) yield* input;
      for (const { name } of output) yield name;
    }
  }
}
