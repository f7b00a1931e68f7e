// Edits graphs: unique names, redirected uses, inserted and removed nodes.

import { traverseGraphs } from "./graph-traversal.ts";
import type { Model } from "./model-file.ts";
import type { GraphProto, NodeProto } from "./proto/onnx_pb.js";
import type { Use, Value } from "./value-table.ts";

/** Reserves names that no node, value or initializer of the model uses. */
export class UniqueNames {
  readonly #taken = new Set<string>();

  constructor(model: Model) {
    for (const { node, initializer, sparseInitializer, input } of traverseGraphs(model.graph)) {
      for (const { name, output } of node)
        for (const taken of [name, ...output]) this.#taken.add(taken);
      for (const { name } of [...initializer, ...input]) this.#taken.add(name);
      for (const { values } of sparseInitializer) this.#taken.add(values?.name ?? "");
    }
  }

  /** @returns `baseName`, or `baseName` with a numeric suffix if that name is taken */
  reserve(baseName: string): string {
    let name = baseName;
    for (let number = 2; this.#taken.has(name); number++) name = `${baseName}_${number}`;
    this.#taken.add(name);
    return name;
  }
}

/** Makes one use read another value. If the use is a graph output, the output takes that name. */
export function redirectUse(use: Use, name: string): void {
  if (use.kind === "node") {
    use.node.input[use.position] = name;
    return;
  }
  const output = use.graph.output[use.position];
  if (output !== undefined) output.name = name;
}

/**
 * Sets one input of a node, padding with empty inputs if the position is beyond the current ones.
 */
export function setInput(node: NodeProto, position: number, name: string): void {
  while (node.input.length < position) node.input.push("");
  node.input[position] = name;
}

/**
 * Renames a value at its origin only; `redirectUse` renames the uses. The value info keeps the old
 * name.
 */
export function renameAtOrigin(value: Value, name: string): void {
  const { origin } = value;
  if (origin.kind === "node") origin.node.output[origin.position] = name;
  if (origin.kind === "initializer") origin.tensor.name = name;
  if (origin.kind === "input") origin.info.name = name;
  value.name = name;
}

/**
 * Collects node insertions and removals and applies them together, so that a large graph is
 * rewritten only once.
 */
export class NodeChanges {
  readonly #first = new Map<GraphProto, NodeProto[]>();
  readonly #after = new Map<NodeProto, NodeProto[]>();
  readonly #removed = new Set<NodeProto>();

  /** Inserts nodes before all existing nodes of the graph. */
  insertFirst(graph: GraphProto, ...nodes: readonly NodeProto[]): void {
    appendTo(this.#first, graph, nodes);
  }

  insertAfter(node: NodeProto, ...nodes: readonly NodeProto[]): void {
    appendTo(this.#after, node, nodes);
  }

  /** Inserts nodes at the first position that can read the value. */
  insertAfterOrigin({ origin, graph }: Value, ...nodes: readonly NodeProto[]): void {
    if (origin.kind === "node") this.insertAfter(origin.node, ...nodes);
    else this.insertFirst(graph, ...nodes);
  }

  remove(node: NodeProto): void {
    this.#removed.add(node);
  }

  apply({ graph }: Model): void {
    for (const current of traverseGraphs(graph)) {
      const kept = current.node.flatMap((node) => [
        ...(this.#removed.has(node) ? [] : [node]),
        ...(this.#after.get(node) ?? []),
      ]);
      current.node = [...(this.#first.get(current) ?? []), ...kept];
    }
  }
}

function appendTo<Key>(lists: Map<Key, NodeProto[]>, key: Key, nodes: readonly NodeProto[]): void {
  lists.set(key, [...(lists.get(key) ?? []), ...nodes]);
}
