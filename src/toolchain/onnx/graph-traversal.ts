// Traverses a graph and its subgraphs: the bodies of If, Loop, Scan and any other operator with
// bodies.

import type { GraphProto, NodeProto, TensorProto } from "./proto/onnx_pb.js";

/** Lists the bodies of a node, in the order of its attributes. */
export function subgraphsOf(node: NodeProto): GraphProto[] {
  return node.attribute.flatMap(({ g, graphs }) => (g === undefined ? graphs : [g, ...graphs]));
}

/** Yields the graph and all nested graphs; each graph precedes the graphs inside it. */
export function* traverseGraphs(graph: GraphProto): Generator<GraphProto> {
  yield graph;
  for (const node of graph.node) for (const body of subgraphsOf(node)) yield* traverseGraphs(body);
}

/** Yields the initializers and attribute constants of a graph, without those of nested graphs. */
export function* tensorsOfGraph({
  initializer,
  sparseInitializer,
  node,
}: GraphProto): Generator<TensorProto> {
  yield* initializer;
  for (const { values, indices } of sparseInitializer)
    yield* [values, indices].filter((part) => part !== undefined);
  yield* tensorsOfNodes(node);
}

/**
 * Yields the constants in the nodes' attributes. Nodes of a function belong to no graph, so this is
 * their only traversal.
 */
export function* tensorsOfNodes(nodes: readonly NodeProto[]): Generator<TensorProto> {
  for (const { attribute } of nodes) {
    for (const { t, tensors, sparseTensor, sparseTensors } of attribute) {
      const sparse = sparseTensor === undefined ? sparseTensors : [sparseTensor, ...sparseTensors];
      yield* [t, ...tensors, ...sparse.flatMap(({ values, indices }) => [values, indices])].filter(
        (tensor) => tensor !== undefined,
      );
    }
  }
}
