// Carries a plan out: constants and types changed, Casts put in where a reader wants the other precision.

import { readConstantTensor } from "../onnx/constants.ts";
import { UniqueNames, NodeChanges, redirectUse, renameAtOrigin } from "../onnx/graph-edits.ts";
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
import { removeRedundantCasts } from "../onnx/redundant-casts.ts";
import type { NodeProto, TensorProto, ValueInfoProto } from "../onnx/proto/onnx_pb.js";
import { toDataType, readFloats, makeTensor, replaceTensorData } from "../onnx/tensor-data.ts";
import { TYPE_ATTRIBUTES } from "../onnx/type-inference.ts";
import type { Use, Value, ValueTable } from "../onnx/value-table.ts";
import { traverseGraphs } from "../onnx/graph-traversal.ts";
import { float16Bytes, encodeFloat16 } from "./float16.ts";
import { type PrecisionPlan, type Precision, TYPE_SETTING_OPS } from "./precision-plan.ts";

/** A constant that has numbers outside of FP16's range. */
export interface RoundedConstant {
  readonly name: string;
  /** See float16.ts. */
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
  const names = new UniqueNames(model);
  const changes = new NodeChanges();
  const rounded: RoundedConstant[] = [];
  const casts: NodeProto[] = [];
  const infos = new Map(
    [...traverseGraphs(model.graph)].map((graph) => [
      graph,
      new Map([...graph.valueInfo, ...graph.input].map((info) => [info.name, info])),
    ]),
  );

  for (const value of table.values) {
    if (value.type !== "float") continue;
    setPrecision(value, plan.precisionOf(value));
    connect(value, plan.precisionOf(value));
  }
  changes.apply(model);
  const gone = removeRedundantCasts(model);
  return { casts: casts.filter((node) => !gone.has(node)).length, rounded };

  /** Gives all readers a name of the value in the precision that they want. */
  function connect(value: Value, own: Precision): void {
    const other = own === "float" ? "float16" : "float";
    const others = value.uses.filter((use) => (plan.requiredPrecision(use) ?? own) !== own);
    const original = value.name;
    const isOutput = (use: Use) => use.kind === "output" && use.graph === model.graph;
    // An output of the model keeps its name: what it is made from gets another.
    const takesName = others.some(isOutput);
    if (takesName) renameAtOrigin(value, names.reserve(`${original}_${suffixOf(own)}`));
    const otherName = takesName
      ? original
      : others.length > 0
        ? names.reserve(`${original}_${suffixOf(other)}`)
        : "";
    if (others.length > 0) addOther(value, other, otherName);

    const halfName = own === "float16" ? value.name : otherName;
    declareFloat16(infos.get(value.graph)?.get(halfName));
    for (const use of value.uses) {
      const name = others.includes(use) ? otherName : value.name;
      redirectUse(use, name);
      if (use.kind === "output" && name === halfName)
        declareFloat16(use.graph.output[use.position]);
    }
  }

  /** As a copy, where it is a constant that has to be in FP32 as well; otherwise as a Cast. */
  function addOther(value: Value, precision: Precision, name: string): void {
    const { origin, graph } = value;
    const tensor = readConstantTensor(value);
    const listed = origin.kind === "initializer" && origin.input !== undefined;
    if (tensor !== undefined && precision === "float16" && !listed && model.irVersion >= 4n) {
      graph.initializer.push(halved(tensor, name));
      return;
    }
    const cast = makeNode({
      name: names.reserve(`Cast_${name}`),
      op: "Cast",
      inputs: [value.name],
      outputs: [name],
      attributes: [makeIntAttribute("to", toDataType(precision))],
    });
    casts.push(cast);
    changes.insertAfterOrigin(value, cast);
  }

  function setPrecision(value: Value, precision: Precision): void {
    const { origin, name } = value;
    const constant = readConstantTensor(value);
    if (precision === "float16" && constant !== undefined) {
      if (origin.kind === "initializer") replaceInPlace(origin.tensor, name);
      if (origin.kind === "node")
        origin.node.attribute = [makeTensorAttribute("value", halved(constant, name))];
    } else if (precision === "float16" && origin.kind === "initializer") {
      replaceInPlace(origin.tensor, name);
    } else if (origin.kind === "node") {
      setOutputType(origin.node, precision);
    }
  }

  function setOutputType(node: NodeProto, precision: Precision): void {
    if (isOnnxOp(node, ...TYPE_SETTING_OPS))
      setAttribute(
        node,
        makeIntAttribute(TYPE_ATTRIBUTES[node.opType]?.name ?? "", toDataType(precision)),
      );
    if (isOnnxOp(node, "DequantizeLinear")) removeAttribute(node, "output_dtype"); // the scale's type
    if (precision === "float16" && isOnnxOp(node, "ConstantOfShape")) {
      const value =
        findAttribute(node, "value")?.t ?? makeTensor("value", "float", [1n], new Float32Array(1));
      setAttribute(node, makeTensorAttribute("value", halved(value, node.output[0] ?? "")));
    }
  }

  function halved(tensor: TensorProto, name: string): TensorProto {
    return makeTensor(name, "float16", tensor.dims, halvesOf(tensor, name));
  }

  function replaceInPlace(tensor: TensorProto, name: string): void {
    replaceTensorData(tensor, "float16", halvesOf(tensor, name));
  }

  function halvesOf(tensor: TensorProto, name: string): Uint8Array {
    const halves = encodeFloat16(readFloats(tensor));
    const { clampedCount: clamped, raisedCount: raised } = halves;
    if (clamped + raised > 0) rounded.push({ name, clamped, raised });
    return float16Bytes(halves);
  }
}

const suffixOf = (precision: Precision): string => (precision === "float" ? "fp32" : "fp16");

/** Declares FP16 where FP32 is declared. */
function declareFloat16(info: ValueInfoProto | undefined): void {
  const type = info?.type?.value;
  if (type?.case === "tensorType" && type.value.elemType === toDataType("float"))
    type.value.elemType = toDataType("float16");
}
