// What static and dynamic quantisation change a graph with: integer constants in the place of weights, and nodes put in.

import { FreshNames, NodeChanges, redirect, renameAtOrigin } from "../onnx/edit.ts";
import type { Model } from "../onnx/model-file.ts";
import { intAttribute, makeNode, type NewNode } from "../onnx/nodes.ts";
import type { NodeProto, TensorProto } from "../onnx/proto/onnx_pb.js";
import { makeTensor } from "../onnx/tensors.ts";
import type { Value } from "../onnx/values.ts";
import { removeUnused } from "../passes/remove-unused.ts";
import type { Embedding } from "./layers.ts";
import type { IntegerType, Quantisation, Scheme } from "./scheme.ts";
import { integerArray, type QuantisedWeights, quantiseWeights } from "./weights.ts";

export interface WeightOptions {
  /** `int8` (the default) is symmetric, `uint8` affine; convolutions with a scale for each channel are symmetric in both. */
  readonly weights?: IntegerType | undefined;
  /** A scale for each output channel; the default. */
  readonly perChannel?: boolean | undefined;
  /** 7 bits a weight, for x86 without VNNI. WebAssembly and ARM do not need it. */
  readonly reduceRange?: boolean | undefined;
}

/** @param op ONNX Runtime's convolutions take no zero points that differ by channel */
export function weightScheme(
  { weights = "int8", perChannel = true, reduceRange = false }: WeightOptions,
  op: string,
): Scheme {
  return {
    type: weights,
    symmetric: weights === "int8" || (perChannel && op === "Conv"),
    reduceRange,
  };
}

export interface IntegerConstants {
  readonly values: string;
  readonly scale: string;
  readonly zeroPoint: string;
}

export class Rewriter {
  readonly #model: Model;
  readonly #names: FreshNames;
  readonly #changes = new NodeChanges();
  readonly #added: TensorProto[] = [];

  constructor(model: Model) {
    this.#model = model;
    this.#names = new FreshNames(model);
  }

  name(wanted: string): string {
    return this.#names.take(wanted);
  }

  node(node: Omit<NewNode, "name">): NodeProto {
    return makeNode({ ...node, name: this.name(`${node.op}_${node.outputs[0]}`) });
  }

  constant(name: string, type: string, dims: readonly number[], data: ArrayBufferView): string {
    const own = this.name(name);
    this.#added.push(makeTensor(own, type, dims.map(BigInt), data));
    return own;
  }

  /** Scale and zero point of an activation. */
  quantisation(
    name: string,
    { type, scale, zeroPoint }: Quantisation,
  ): Omit<IntegerConstants, "values"> {
    const zeros = integerArray(type, 1).fill(zeroPoint);
    return {
      scale: this.constant(`${name}_scale`, "float", [], Float32Array.of(scale)),
      zeroPoint: this.constant(`${name}_zero_point`, type, [], zeros),
    };
  }

  weights(
    name: string,
    dims: readonly number[],
    type: IntegerType,
    { data, scales, zeroPoints }: QuantisedWeights,
    perChannel: boolean,
  ): IntegerConstants {
    const shape = perChannel ? [scales.length] : [];
    return {
      values: this.constant(`${name}_quantised`, type, dims, data),
      scale: this.constant(`${name}_scale`, "float", shape, scales),
      zeroPoint: this.constant(`${name}_zero_point`, type, shape, zeroPoints),
    };
  }

  /** Rows are looked up as integers, and only those become FP32. A scale for each column. To be done last: the value gets another name. */
  embedding({ node, y, table }: Embedding, options: WeightOptions): void {
    const { perChannel = true } = options;
    const scheme = weightScheme(options, "Gather");
    const constants = this.weights(
      table.value.name,
      table.dims,
      scheme.type,
      quantiseWeights(table, perChannel ? 1 : undefined, scheme),
      perChannel,
    );
    const original = y.name;
    renameAtOrigin(y, this.name(`${original}_quantised`));
    node.input[0] = constants.values;
    const inputs = [y.name, constants.scale, constants.zeroPoint];
    this.insertAfter(
      node,
      this.node({
        op: "DequantizeLinear",
        inputs,
        outputs: [original],
        attributes: perChannel ? [intAttribute("axis", -1)] : [],
      }),
    );
  }

  insertAfter(node: NodeProto, ...nodes: readonly NodeProto[]): void {
    this.#changes.insertAfter(node, ...nodes);
  }

  insertAfterOrigin(value: Value, ...nodes: readonly NodeProto[]): void {
    this.#changes.insertAfterOrigin(value, ...nodes);
  }

  insertFirst(...nodes: readonly NodeProto[]): void {
    this.#changes.insertFirst(this.#model.graph, ...nodes);
  }

  remove(node: NodeProto): void {
    this.#changes.remove(node);
  }

  /** What no output needs any more is gone afterwards. */
  apply(): void {
    this.#changes.apply(this.#model);
    this.#model.graph.initializer.push(...this.#added);
    removeUnused(this.#model);
  }
}

/** An output of the graph keeps its name, and what makes it gets another. @returns the uses that are to read something else */
export function detach(
  value: Value,
  rewriter: Rewriter,
): { readonly restored: string | undefined; readonly uses: Value["uses"] } {
  const isOutput = value.uses.some((use) => use.kind === "output" && use.graph === value.graph);
  if (!isOutput) return { restored: undefined, uses: value.uses };
  // An input that is an output as well stays the same value.
  if (value.origin.kind !== "node")
    return { restored: undefined, uses: value.uses.filter(({ kind }) => kind === "node") };
  const restored = value.name;
  renameAtOrigin(value, rewriter.name(`${restored}_fp32`));
  return { restored, uses: value.uses };
}

export function redirectAll(uses: Value["uses"], name: string): void {
  for (const use of uses) redirect(use, name);
}
