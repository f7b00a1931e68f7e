// Applies a precision plan: converts constants and types, and inserts a Cast for each use in the
// other precision.

import { readConstantTensor } from "../onnx/constants.ts";
import { UniqueNames, NodeChanges, redirectUse, renameAtOrigin } from "../onnx/graph-edits.ts";
import { traverseGraphs } from "../onnx/graph-traversal.ts";
import type { Model } from "../onnx/model-file.ts";
import {
  findAttribute,
  makeIntAttribute,
  isOnnxOp,
  makeNode,
  removeAttribute,
  setAttribute,
  makeTensorAttribute,
} from "../onnx/nodes.ts";
import type { GraphProto, NodeProto, TensorProto, ValueInfoProto } from "../onnx/proto/onnx_pb.js";
import { removeRedundantCasts } from "../onnx/redundant-casts.ts";
import { toDataType, readFloats, makeTensor, replaceTensorData } from "../onnx/tensor-data.ts";
import { TYPE_ATTRIBUTES } from "../onnx/type-inference.ts";
import type { Use, Value, ValueTable } from "../onnx/value-table.ts";
import { float16Bytes, encodeFloat16 } from "./float16.ts";
import { type PrecisionPlan, type Precision, TYPE_SETTING_OPS } from "./precision-plan.ts";

/** A constant with values outside the range of FP16. */
export interface RoundedConstant {
  readonly name: string;
  /** Number of clamped and raised values; see float16.ts. */
  readonly clamped: number;
  readonly raised: number;
}

export interface PrecisionChanges {
  readonly casts: number;
  readonly rounded: readonly RoundedConstant[];
}

/** Changes the model. */
export function applyPrecisionPlan(
  model: Model,
  table: ValueTable,
  plan: PrecisionPlan,
): PrecisionChanges {
  return new PrecisionRewriter(model, plan).apply(table);
}

class PrecisionRewriter {
  readonly #model: Model;
  readonly #plan: PrecisionPlan;
  readonly #names: UniqueNames;
  readonly #changes = new NodeChanges();
  readonly #rounded: RoundedConstant[] = [];
  readonly #casts: NodeProto[] = [];
  readonly #infos: ReadonlyMap<GraphProto, ReadonlyMap<string, ValueInfoProto>>;

  constructor(model: Model, plan: PrecisionPlan) {
    this.#model = model;
    this.#plan = plan;
    this.#names = new UniqueNames(model);
    this.#infos = new Map(
      [...traverseGraphs(model.graph)].map((graph) => [
        graph,
        new Map([...graph.valueInfo, ...graph.input].map((info) => [info.name, info])),
      ]),
    );
  }

  apply(table: ValueTable): PrecisionChanges {
    for (const value of table.values) {
      if (value.type !== "float") continue;
      const precision = this.#plan.precisionOf(value);
      this.#setPrecision(value, precision);
      this.#connectUses(value, precision);
    }
    this.#changes.apply(this.#model);
    const removed = removeRedundantCasts(this.#model);
    const casts = this.#casts.filter((node) => !removed.has(node)).length;
    return { casts, rounded: this.#rounded };
  }

  /** Redirects each use to the value in the precision that it requires. */
  #connectUses(value: Value, own: Precision): void {
    const other = own === "float" ? "float16" : "float";
    const otherUses = value.uses.filter(
      (use) => (this.#plan.requiredPrecision(use) ?? own) !== own,
    );
    const original = value.name;
    const isModelOutput = (use: Use) => use.kind === "output" && use.graph === this.#model.graph;
    // A model output keeps its name, so the value before the Cast is renamed.
    const takesName = otherUses.some(isModelOutput);
    if (takesName) renameAtOrigin(value, this.#names.reserve(`${original}_${suffixOf(own)}`));
    const otherName = takesName
      ? original
      : otherUses.length > 0
        ? this.#names.reserve(`${original}_${suffixOf(other)}`)
        : "";
    if (otherUses.length > 0) this.#addConvertedValue(value, other, otherName);

    const fp16Name = own === "float16" ? value.name : otherName;
    declareFloat16(this.#infos.get(value.graph)?.get(fp16Name));
    for (const use of value.uses) {
      const name = otherUses.includes(use) ? otherName : value.name;
      redirectUse(use, name);
      if (use.kind === "output" && name === fp16Name)
        declareFloat16(use.graph.output[use.position]);
    }
  }

  /**
   * Adds an FP16 copy of a constant that is also needed in FP32, and a Cast for any other value.
   */
  #addConvertedValue(value: Value, precision: Precision, name: string): void {
    const { origin, graph } = value;
    const tensor = readConstantTensor(value);
    const isInput = origin.kind === "initializer" && origin.input !== undefined;
    const canCopy = precision === "float16" && !isInput && this.#model.irVersion >= 4n;
    if (tensor !== undefined && canCopy) {
      graph.initializer.push(this.#toFloat16Tensor(tensor, name));
      return;
    }
    const cast = makeNode({
      name: this.#names.reserve(`Cast_${name}`),
      op: "Cast",
      inputs: [value.name],
      outputs: [name],
      attributes: [makeIntAttribute("to", toDataType(precision))],
    });
    this.#casts.push(cast);
    this.#changes.insertAfterOrigin(value, cast);
  }

  #setPrecision(value: Value, precision: Precision): void {
    const { origin, name } = value;
    const constant = readConstantTensor(value);
    if (precision === "float16" && constant !== undefined) {
      if (origin.kind === "initializer") this.#convertInPlace(origin.tensor, name);
      if (origin.kind === "node")
        origin.node.attribute = [
          makeTensorAttribute("value", this.#toFloat16Tensor(constant, name)),
        ];
    } else if (precision === "float16" && origin.kind === "initializer") {
      this.#convertInPlace(origin.tensor, name);
    } else if (origin.kind === "node") {
      this.#setOutputType(origin.node, precision);
    }
  }

  #setOutputType(node: NodeProto, precision: Precision): void {
    if (isOnnxOp(node, ...TYPE_SETTING_OPS))
      setAttribute(
        node,
        makeIntAttribute(TYPE_ATTRIBUTES[node.opType]?.name ?? "", toDataType(precision)),
      );
    // Without this attribute, the output has the type of the scale.
    if (isOnnxOp(node, "DequantizeLinear")) removeAttribute(node, "output_dtype");
    if (precision === "float16" && isOnnxOp(node, "ConstantOfShape")) {
      const value =
        findAttribute(node, "value")?.t ?? makeTensor("value", "float", [1n], new Float32Array(1));
      const converted = this.#toFloat16Tensor(value, node.output[0] ?? "");
      setAttribute(node, makeTensorAttribute("value", converted));
    }
  }

  #toFloat16Tensor(tensor: TensorProto, name: string): TensorProto {
    return makeTensor(name, "float16", tensor.dims, this.#encode(tensor, name));
  }

  #convertInPlace(tensor: TensorProto, name: string): void {
    replaceTensorData(tensor, "float16", this.#encode(tensor, name));
  }

  #encode(tensor: TensorProto, name: string): Uint8Array {
    const encoding = encodeFloat16(readFloats(tensor));
    const { clampedCount: clamped, raisedCount: raised } = encoding;
    if (clamped + raised > 0) this.#rounded.push({ name, clamped, raised });
    return float16Bytes(encoding);
  }
}

const suffixOf = (precision: Precision): string => (precision === "float" ? "fp32" : "fp16");

/** Declares FP16 for a value that is declared as FP32. */
function declareFloat16(info: ValueInfoProto | undefined): void {
  const type = info?.type?.value;
  if (type?.case === "tensorType" && type.value.elemType === toDataType("float"))
    type.value.elemType = toDataType("float16");
}
