// A model's values: where each comes from, its type, and everything that reads it, in the graph itself and in graphs within.

import { onnxErrors } from "./errors.ts";
import type { Model } from "./model-file.ts";
import { displayNameOf } from "./nodes.ts";
import { opsetsOf, findSignature } from "./operators/signatures.ts";
import type { GraphProto, NodeProto, TensorProto, ValueInfoProto } from "./proto/onnx_pb.js";
import { elementTypeOf } from "./tensor-data.ts";
import {
  inferSubgraphInputTypes,
  inferOutputTypes,
  valueTypeOf,
  type ValueType,
} from "./type-inference.ts";
import { subgraphsOf } from "./graph-traversal.ts";

export interface Value {
  name: string;
  /** The one that it is made in, or an input of. */
  readonly graph: GraphProto;
  readonly origin: Origin;
  /** Undefined where neither the operators nor the graph's value infos tell. */
  readonly type: ValueType | undefined;
  readonly uses: readonly Use[];
}

export type Origin =
  | { readonly kind: "input"; readonly info: ValueInfoProto }
  /** `input` where the graph lists it among its inputs too: a default that a caller may replace, but before version 4 of the format any constant. */
  | {
      readonly kind: "initializer";
      readonly tensor: TensorProto;
      readonly input: ValueInfoProto | undefined;
      readonly isConstant: boolean;
    }
  | { readonly kind: "sparse-initializer" }
  | { readonly kind: "node"; readonly node: NodeProto; readonly position: number };

/** One input of a node, or one output of a graph. */
export type Use =
  | {
      readonly kind: "node";
      readonly graph: GraphProto;
      readonly node: NodeProto;
      readonly position: number;
    }
  | { readonly kind: "output"; readonly graph: GraphProto; readonly position: number };

export interface ValueTable {
  /** In an order in which each comes after those that it is made from. */
  readonly values: readonly Value[];
  /** All nodes, those of bodies before the node that has the bodies. */
  readonly nodes: readonly NodeProto[];
  /** Undefined for an optional one that is left out. */
  inputsOf(node: NodeProto): readonly (Value | undefined)[];
  outputsOf(node: NodeProto): readonly (Value | undefined)[];
  outputsOfGraph(graph: GraphProto): readonly Value[];
}

type MutableValue = Value & { readonly uses: Use[] };

/**
 * It tells the model as it was: after a change of the graph, make it again.
 * @throws invalid_model_file if a name stands for nothing, or for two values
 */
export function buildValueTable(model: Model): ValueTable {
  const opsets = opsetsOf(model);
  const values: MutableValue[] = [];
  const nodes: NodeProto[] = [];
  const inputs = new Map<NodeProto, readonly (MutableValue | undefined)[]>();
  const outputs = new Map<NodeProto, readonly (MutableValue | undefined)[]>();
  const results = new Map<GraphProto, readonly MutableValue[]>();

  /** @param inputTypes as the node knows them that has this graph as a body @returns the types of the graph's outputs */
  function visit(
    graph: GraphProto,
    outer: Scope | undefined,
    inputTypes: readonly (ValueType | undefined)[],
  ): readonly (ValueType | undefined)[] {
    const scope = new Scope(outer);
    const declared = new Map(
      [...graph.valueInfo, ...graph.output].map(({ name, type }) => [name, valueTypeOf(type)]),
    );
    const add = (name: string, origin: Origin, type: ValueType | undefined) => {
      const value: MutableValue = {
        name,
        graph,
        origin,
        type: type ?? declared.get(name),
        uses: [],
      };
      scope.add(value);
      values.push(value);
      return value;
    };

    const infos = new Map(graph.input.map((info) => [info.name, info]));
    for (const tensor of graph.initializer) {
      const input = infos.get(tensor.name);
      add(
        tensor.name,
        {
          kind: "initializer",
          tensor,
          input,
          isConstant: input === undefined || model.irVersion < 4n,
        },
        elementTypeOf(tensor.dataType),
      );
    }
    for (const { values } of graph.sparseInitializer)
      add(values?.name ?? "", { kind: "sparse-initializer" }, elementTypeOf(values?.dataType ?? 0));
    const constants = new Set(graph.initializer.map(({ name }) => name));
    graph.input.forEach((info, position) => {
      if (!constants.has(info.name))
        add(info.name, { kind: "input", info }, valueTypeOf(info.type) ?? inputTypes[position]);
    });

    for (const node of graph.node) {
      const read = node.input.map((name) =>
        name === "" ? undefined : scope.find(name, displayNameOf(node)),
      );
      read.forEach((value, position) => value?.uses.push({ kind: "node", graph, node, position }));
      const types = read.map((value) => value?.type);
      const bodies = subgraphsOf(node).map((body) =>
        visit(body, scope, inferSubgraphInputTypes(node, types)),
      );
      const made = inferOutputTypes(node, findSignature(node, opsets), types, bodies);
      nodes.push(node);
      inputs.set(node, read);
      outputs.set(
        node,
        node.output.map((name, position) =>
          name === "" ? undefined : add(name, { kind: "node", node, position }, made[position]),
        ),
      );
    }

    const found = graph.output.map(({ name }) =>
      scope.find(name, `the output of ${graph.name || "the graph"}`),
    );
    found.forEach((value, position) => value.uses.push({ kind: "output", graph, position }));
    results.set(graph, found);
    return found.map(({ type }) => type);
  }

  visit(model.graph, undefined, []);
  return {
    values,
    nodes,
    inputsOf: (node) => inputs.get(node) ?? [],
    outputsOf: (node) => outputs.get(node) ?? [],
    outputsOfGraph: (graph) => results.get(graph) ?? [],
  };
}

/** The names that a graph's nodes may read: its own so far, and those of the graphs that it is in. */
class Scope {
  readonly #values = new Map<string, MutableValue>();
  readonly #outer: Scope | undefined;

  constructor(outer: Scope | undefined) {
    this.#outer = outer;
  }

  add(value: MutableValue): void {
    if (value.name.includes("\u{fffd}"))
      throw onnxErrors.invalidModelFile(
        `the name ${JSON.stringify(value.name)} is not valid UTF-8`,
      );
    if (this.#values.has(value.name))
      throw onnxErrors.invalidModelFile(`two values have the name ${JSON.stringify(value.name)}`);
    this.#values.set(value.name, value);
  }

  find(name: string, reader: string): MutableValue {
    const value = this.#values.get(name) ?? this.#outer?.find(name, reader);
    if (value === undefined)
      throw onnxErrors.invalidModelFile(
        `${reader} reads ${JSON.stringify(name)}, which nothing before it makes`,
      );
    return value;
  }
}
