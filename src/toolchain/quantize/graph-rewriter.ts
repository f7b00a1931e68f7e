// Rewrites a graph for static and dynamic quantization: replaces weights by integer constants and
// inserts nodes.

import { UniqueNames, NodeChanges, redirectUse, renameAtOrigin } from "../onnx/graph-edits.ts";
import type { Model } from "../onnx/model-file.ts";
import { makeIntAttribute, makeNode, type NodeSpec } from "../onnx/nodes.ts";
import type { NodeProto, TensorProto } from "../onnx/proto/onnx_pb.js";
import { makeTensor } from "../onnx/tensor-data.ts";
import type { Value } from "../onnx/value-table.ts";
import { removeUnused } from "../passes/remove-unused.ts";
import type { EmbeddingTable } from "./quantizable-layers.ts";
import type { IntegerType, QuantizationParams, QuantizationScheme } from "./quantization-scheme.ts";
import { createIntegerArray, type QuantizedWeights, quantizeWeights } from "./quantize-weights.ts";

export interface WeightOptions {
  /**
   * `int8` (the default) is symmetric, `uint8` affine. Convolutions with per-channel scales are
   * always symmetric.
   */
  readonly weights?: IntegerType | undefined;
  /** Uses one scale per output channel; true by default. */
  readonly perChannel?: boolean | undefined;
  /** Uses 7 bits per weight, for x86 without VNNI. WebAssembly and ARM do not need it. */
  readonly reduceRange?: boolean | undefined;
}

/** @param op operator; ONNX Runtime's convolutions do not support per-channel zero points */
export function weightScheme(
  { weights = "int8", perChannel = true, reduceRange = false }: WeightOptions,
  op: string,
): QuantizationScheme {
  return {
    type: weights,
    symmetric: weights === "int8" || (perChannel && op === "Conv"),
    reduceRange,
  };
}

export interface QuantizedConstants {
  readonly values: string;
  readonly scale: string;
  readonly zeroPoint: string;
}

export class GraphRewriter {
  readonly #model: Model;
  readonly #names: UniqueNames;
  readonly #changes = new NodeChanges();
  readonly #added: TensorProto[] = [];

  constructor(model: Model) {
    this.#model = model;
    this.#names = new UniqueNames(model);
  }

  reserveName(baseName: string): string {
    return this.#names.reserve(baseName);
  }

  createNode(node: Omit<NodeSpec, "name">): NodeProto {
    return makeNode({ ...node, name: this.reserveName(`${node.op}_${node.outputs[0]}`) });
  }

  addConstant(name: string, type: string, dims: readonly number[], data: ArrayBufferView): string {
    const uniqueName = this.reserveName(name);
    this.#added.push(makeTensor(uniqueName, type, dims.map(BigInt), data));
    return uniqueName;
  }

  /** Adds the scale and zero point of an activation. */
  addQuantizationParams(
    name: string,
    { type, scale, zeroPoint }: QuantizationParams,
  ): Omit<QuantizedConstants, "values"> {
    const zeros = createIntegerArray(type, 1).fill(zeroPoint);
    return {
      scale: this.addConstant(`${name}_scale`, "float", [], Float32Array.of(scale)),
      zeroPoint: this.addConstant(`${name}_zero_point`, type, [], zeros),
    };
  }

  addWeights(
    name: string,
    dims: readonly number[],
    type: IntegerType,
    { data, scales, zeroPoints }: QuantizedWeights,
    perChannel: boolean,
  ): QuantizedConstants {
    const shape = perChannel ? [scales.length] : [];
    return {
      values: this.addConstant(`${name}_quantized`, type, dims, data),
      scale: this.addConstant(`${name}_scale`, "float", shape, scales),
      zeroPoint: this.addConstant(`${name}_zero_point`, type, shape, zeroPoints),
    };
  }

  /**
   * Looks up rows as integers and converts only those to FP32, with one scale per column. Call it
   * last, because it renames the value.
   */
  quantizeEmbedding({ node, y, weights: table }: EmbeddingTable, options: WeightOptions): void {
    const { perChannel = true } = options;
    const scheme = weightScheme(options, "Gather");
    const constants = this.addWeights(
      table.value.name,
      table.dims,
      scheme.type,
      quantizeWeights(table, perChannel ? 1 : undefined, scheme),
      perChannel,
    );
    const original = y.name;
    renameAtOrigin(y, this.reserveName(`${original}_quantized`));
    node.input[0] = constants.values;
    const inputs = [y.name, constants.scale, constants.zeroPoint];
    this.insertAfter(
      node,
      this.createNode({
        op: "DequantizeLinear",
        inputs,
        outputs: [original],
        attributes: perChannel ? [makeIntAttribute("axis", -1)] : [],
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

  /** Applies all changes, then removes whatever no output needs. */
  apply(): void {
    this.#changes.apply(this.#model);
    this.#model.graph.initializer.push(...this.#added);
    removeUnused(this.#model);
  }
}

/**
 * Renames the origin of a graph output, so that the output keeps its name.
 * @returns the uses that must be redirected
 */
export function detachUses(
  value: Value,
  rewriter: GraphRewriter,
): { readonly restored: string | undefined; readonly uses: Value["uses"] } {
  const isOutput = value.uses.some((use) => use.kind === "output" && use.graph === value.graph);
  if (!isOutput) return { restored: undefined, uses: value.uses };
  // A graph input that is also an output remains the same value.
  if (value.origin.kind !== "node")
    return { restored: undefined, uses: value.uses.filter(({ kind }) => kind === "node") };
  const restored = value.name;
  renameAtOrigin(value, rewriter.reserveName(`${restored}_fp32`));
  return { restored, uses: value.uses };
}

export function redirectUses(uses: Value["uses"], name: string): void {
  for (const use of uses) redirectUse(use, name);
}
