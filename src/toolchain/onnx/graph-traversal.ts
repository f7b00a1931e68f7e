// Ways through a graph and the graphs in it: the bodies of If, Loop, Scan and of any other operator that has some.

import type { GraphProto, NodeProto, TensorProto } from "./proto/onnx_pb.js";

/** The bodies of a node, in the order of its attributes. */
export function subgraphsOf(node: NodeProto): GraphProto[] {
  return node.attribute.flatMap(({ g, graphs }) => (g === undefined ? graphs : [g, ...graphs]));
}

/** The graph and all graphs in it, each before those in it. */
export function* traverseGraphs(graph: GraphProto): Generator<GraphProto> {
  yield graph;
  for (const node of graph.node) for (const body of subgraphsOf(node)) yield* traverseGraphs(body);
}

/** Initializers and constants in attributes, without those of the graphs in it. */
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

/** Constants in attributes, those in bodies as well where the nodes are no graph's (a function's). */
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
