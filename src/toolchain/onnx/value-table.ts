// Builds a table of a model's values: the origin, type and uses of each, in all graphs.

import { onnxErrors } from "./errors.ts";
import { subgraphsOf } from "./graph-traversal.ts";
import type { Model } from "./model-file.ts";
import { displayNameOf } from "./nodes.ts";
import { findSignature, type Opsets, opsetsOf } from "./operators/signatures.ts";
import type { GraphProto, NodeProto, TensorProto, ValueInfoProto } from "./proto/onnx_pb.js";
import { elementTypeOf } from "./tensor-data.ts";
import {
  inferSubgraphInputTypes,
  inferOutputTypes,
  valueTypeOf,
  type ValueType,
} from "./type-inference.ts";

export interface Value {
  name: string;
  /** The graph that produces the value or has it as an input. */
  readonly graph: GraphProto;
  readonly origin: Origin;
  /** Undefined if neither the operators nor the graph's value infos determine it. */
  readonly type: ValueType | undefined;
  readonly uses: readonly Use[];
}

export type Origin =
  | { readonly kind: "input"; readonly info: ValueInfoProto }
  /**
   * `input` is set if the graph also lists the initializer among its inputs. It is then a default
   * that callers may override; before version 4 of the format, every constant is listed.
   */
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
  /** In topological order: a value follows the values that it is computed from. */
  readonly values: readonly Value[];
  /** All nodes. The nodes of a body precede the node that owns the body. */
  readonly nodes: readonly NodeProto[];
  /** An omitted optional input is undefined. */
  inputsOf(node: NodeProto): readonly (Value | undefined)[];
  outputsOf(node: NodeProto): readonly (Value | undefined)[];
  outputsOfGraph(graph: GraphProto): readonly Value[];
}

type MutableValue = Value & { readonly uses: Use[] };

/**
 * The table is a snapshot; build it again after a change of the graph.
 * @throws invalid_model_file if a name is undefined or defined twice
 */
export function buildValueTable(model: Model): ValueTable {
  return new ValueTableBuilder(model).build();
}

type Types = readonly (ValueType | undefined)[];

class ValueTableBuilder {
  readonly #model: Model;
  readonly #opsets: Opsets;
  readonly #values: MutableValue[] = [];
  readonly #nodes: NodeProto[] = [];
  readonly #inputs = new Map<NodeProto, readonly (MutableValue | undefined)[]>();
  readonly #outputs = new Map<NodeProto, readonly (MutableValue | undefined)[]>();
  readonly #graphOutputs = new Map<GraphProto, readonly MutableValue[]>();

  constructor(model: Model) {
    this.#model = model;
    this.#opsets = opsetsOf(model);
  }

  build(): ValueTable {
    this.#visitGraph(this.#model.graph, undefined, []);
    return {
      values: this.#values,
      nodes: this.#nodes,
      inputsOf: (node) => this.#inputs.get(node) ?? [],
      outputsOf: (node) => this.#outputs.get(node) ?? [],
      outputsOfGraph: (graph) => this.#graphOutputs.get(graph) ?? [],
    };
  }

  /**
   * @param inputTypes the input types that the node with this body determines
   * @returns the types of the graph's outputs
   */
  #visitGraph(graph: GraphProto, outer: Scope | undefined, inputTypes: Types): Types {
    const scope = new Scope(graph, outer);
    this.#addInitializers(scope);
    this.#addInputs(scope, inputTypes);
    for (const node of graph.node) this.#visitNode(node, scope);

    const outputs = graph.output.map(({ name }) =>
      scope.find(name, `the output of ${graph.name || "the graph"}`),
    );
    outputs.forEach((value, position) => value.uses.push({ kind: "output", graph, position }));
    this.#graphOutputs.set(graph, outputs);
    return outputs.map(({ type }) => type);
  }

  #addInitializers(scope: Scope): void {
    const { initializer, sparseInitializer, input: inputs } = scope.graph;
    const infos = new Map(inputs.map((info) => [info.name, info]));
    for (const tensor of initializer) {
      const input = infos.get(tensor.name);
      const isConstant = input === undefined || this.#model.irVersion < 4n;
      const origin: Origin = { kind: "initializer", tensor, input, isConstant };
      this.#add(scope, tensor.name, origin, elementTypeOf(tensor.dataType));
    }
    for (const { values } of sparseInitializer) {
      const type = elementTypeOf(values?.dataType ?? 0);
      this.#add(scope, values?.name ?? "", { kind: "sparse-initializer" }, type);
    }
  }

  #addInputs(scope: Scope, inputTypes: Types): void {
    const { initializer, input } = scope.graph;
    const constants = new Set(initializer.map(({ name }) => name));
    input.forEach((info, position) => {
      const type = valueTypeOf(info.type) ?? inputTypes[position];
      if (!constants.has(info.name)) this.#add(scope, info.name, { kind: "input", info }, type);
    });
  }

  #visitNode(node: NodeProto, scope: Scope): void {
    const { graph } = scope;
    const inputs = node.input.map((name) =>
      name === "" ? undefined : scope.find(name, displayNameOf(node)),
    );
    inputs.forEach((value, position) => value?.uses.push({ kind: "node", graph, node, position }));
    const types = inputs.map((value) => value?.type);
    const bodies = subgraphsOf(node).map((body) =>
      this.#visitGraph(body, scope, inferSubgraphInputTypes(node, types)),
    );
    const outputTypes = inferOutputTypes(node, findSignature(node, this.#opsets), types, bodies);
    this.#nodes.push(node);
    this.#inputs.set(node, inputs);
    this.#outputs.set(
      node,
      node.output.map((name, position) =>
        name === ""
          ? undefined
          : this.#add(scope, name, { kind: "node", node, position }, outputTypes[position]),
      ),
    );
  }

  #add(scope: Scope, name: string, origin: Origin, type: ValueType | undefined): MutableValue {
    const { graph } = scope;
    const value: MutableValue = {
      name,
      graph,
      origin,
      type: type ?? scope.declaredType(name),
      uses: [],
    };
    scope.add(value);
    this.#values.push(value);
    return value;
  }
}

/**
 * The names that a graph's nodes can read: its own values so far, and those of the enclosing
 * graphs.
 */
class Scope {
  readonly graph: GraphProto;
  readonly #values = new Map<string, MutableValue>();
  readonly #declaredTypes: ReadonlyMap<string, ValueType | undefined>;
  readonly #outer: Scope | undefined;

  constructor(graph: GraphProto, outer: Scope | undefined) {
    this.graph = graph;
    this.#outer = outer;
    this.#declaredTypes = new Map(
      [...graph.valueInfo, ...graph.output].map(({ name, type }) => [name, valueTypeOf(type)]),
    );
  }

  declaredType(name: string): ValueType | undefined {
    return this.#declaredTypes.get(name);
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
        `${reader} reads ${JSON.stringify(name)}, which is not defined before it`,
      );
    return value;
  }
}
