// Changes of graphs: new names, other names, nodes put in and taken out.

import type { Model } from "./model-file.ts";
import type { GraphProto, NodeProto } from "./proto/onnx_pb.js";
import type { Use, Value } from "./value-table.ts";
import { traverseGraphs } from "./graph-traversal.ts";

/** Names that nothing in the model has yet. */
export class UniqueNames {
  readonly #taken = new Set<string>();

  constructor(model: Model) {
    for (const { node, initializer, sparseInitializer, input } of traverseGraphs(model.graph)) {
      for (const { name, output } of node)
        for (const one of [name, ...output]) this.#taken.add(one);
      for (const { name } of [...initializer, ...input]) this.#taken.add(name);
      for (const { values } of sparseInitializer) this.#taken.add(values?.name ?? "");
    }
  }

  /** @returns `wanted`, or it with a number behind it */
  reserve(wanted: string): string {
    let name = wanted;
    for (let number = 2; this.#taken.has(name); number++) name = `${wanted}_${number}`;
    this.#taken.add(name);
    return name;
  }
}

/** Lets one reader read something else. A graph's output gets that name too. */
export function redirectUse(use: Use, name: string): void {
  if (use.kind === "node") {
    use.node.input[use.position] = name;
    return;
  }
  const output = use.graph.output[use.position];
  if (output !== undefined) output.name = name;
}

/** Lets a node read something at a position, also at one behind those that it has. */
export function setInput(node: NodeProto, position: number, name: string): void {
  while (node.input.length < position) node.input.push("");
  node.input[position] = name;
}

/** Gives a value another name where it is made; `redirectUse` does it where it is read. Its value info is left to who keeps the old name. */
export function renameAtOrigin(value: Value, name: string): void {
  const { origin } = value;
  if (origin.kind === "node") origin.node.output[origin.position] = name;
  if (origin.kind === "initializer") origin.tensor.name = name;
  if (origin.kind === "input") origin.info.name = name;
  value.name = name;
}

/** Nodes to put in and take out, all at once: a graph with many nodes is written anew only once. */
export class NodeChanges {
  readonly #first = new Map<GraphProto, NodeProto[]>();
  readonly #after = new Map<NodeProto, NodeProto[]>();
  readonly #removed = new Set<NodeProto>();

  /** In front of all nodes that the graph has. */
  insertFirst(graph: GraphProto, ...nodes: readonly NodeProto[]): void {
    appendTo(this.#first, graph, nodes);
  }

  insertAfter(node: NodeProto, ...nodes: readonly NodeProto[]): void {
    appendTo(this.#after, node, nodes);
  }

  /** Where the value can be read for the first time. */
  insertAfterOrigin({ origin, graph }: Value, ...nodes: readonly NodeProto[]): void {
    if (origin.kind === "node") this.insertAfter(origin.node, ...nodes);
    else this.insertFirst(graph, ...nodes);
  }

  remove(node: NodeProto): void {
    this.#removed.add(node);
  }

  apply({ graph }: Model): void {
    for (const one of traverseGraphs(graph)) {
      const kept = one.node.flatMap((node) => [
        ...(this.#removed.has(node) ? [] : [node]),
        ...(this.#after.get(node) ?? []),
      ]);
      one.node = [...(this.#first.get(one) ?? []), ...kept];
    }
  }
}

function appendTo<Key>(lists: Map<Key, NodeProto[]>, key: Key, nodes: readonly NodeProto[]): void {
  lists.set(key, [...(lists.get(key) ?? []), ...nodes]);
}
