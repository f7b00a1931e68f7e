// Decides what of a graph becomes FP16: each FP32 value is made in one precision, and each reader wants one. Where they
// differ there will be a Cast, or a second copy of a constant.

import { readFloatConstant, readConstantTensor } from "../onnx/constants.ts";
import { domainOf, isOnnxOp } from "../onnx/nodes.ts";
import type { GraphProto, NodeProto } from "../onnx/proto/onnx_pb.js";
import {
  type Operand,
  type Signature,
  findSignature,
  type Opsets,
} from "../onnx/operators/signatures.ts";
import { isTensorType } from "../onnx/type-inference.ts";
import type { Use, Value, ValueTable } from "../onnx/value-table.ts";
import { subgraphsOf, traverseGraphs } from "../onnx/graph-traversal.ts";
import { findFp32Reason, VARIANCE_REASON, findVarianceNodes } from "./fp32-operators.ts";
import { isNormalFloat16 } from "./float16.ts";

export type Precision = "float" | "float16";

export interface PrecisionPlanOptions {
  readonly opsets: Opsets;
  /** Operators and names of nodes that stay in FP32. */
  readonly keep: ReadonlySet<string>;
  /** The precision of the FP32 inputs and outputs of the whole graph. */
  readonly io: Precision;
}

export interface PrecisionPlan {
  /** In which an FP32 value is made. */
  precisionOf(value: Value): Precision;
  /** In which a reader of an FP32 value wants it; undefined where it takes either. */
  requiredPrecision(use: Use): Precision | undefined;
  /** The nodes that compute in FP32, and why. */
  readonly fp32Reasons: ReadonlyMap<NodeProto, string>;
}

/** They move numbers and do not compute with them. */
const DATA_MOVEMENT_OPS = [
  "Cast",
  "ConstantOfShape",
  "Identity",
  "Reshape",
  "Transpose",
  "Squeeze",
  "Unsqueeze",
  "Flatten",
  "Slice",
  "Gather",
  "GatherElements",
  "GatherND",
  "Expand",
  "Split",
  "Concat",
  "Tile",
  "DepthToSpace",
  "SpaceToDepth",
];
/** An attribute sets the type of what they make. */
export const TYPE_SETTING_OPS = ["Cast", "Bernoulli"];
/** The types of their inputs and outputs are those of their bodies'. */
const CONTROL_FLOW_OPS = ["If", "Loop", "Scan"];

export function planPrecisions(
  table: ValueTable,
  main: GraphProto,
  { opsets, keep, io }: PrecisionPlanOptions,
): PrecisionPlan {
  const signatures = new Map(table.nodes.map((node) => [node, findSignature(node, opsets)]));
  const kept = new Map<NodeProto, string>();
  const keptBodies = new Set<GraphProto>();
  const variances = new Set(findVarianceNodes(table));

  // From the last node to the first: a node with bodies comes before what is in them.
  for (const node of table.nodes.toReversed()) {
    const reason = kept.get(node) ?? reasonToKeep(node);
    if (reason === undefined) continue;
    if (floatsAt(node).length > 0) kept.set(node, reason);
    for (const body of subgraphsOf(node).flatMap((one) => [...traverseGraphs(one)])) {
      keptBodies.add(body);
      for (const inner of body.node)
        if (floatsAt(inner).length > 0) kept.set(inner, "in the body of a node that is kept");
    }
  }

  const stays = new Set<NodeProto>(); // moves what is FP32 before and after it
  for (const node of table.nodes)
    if (isOnnxOp(node, ...DATA_MOVEMENT_OPS) && !kept.has(node) && movesFp32(node)) stays.add(node);
  for (const node of table.nodes.toReversed()) {
    const wanted = table
      .outputsOf(node)
      .flatMap((value) => (value?.type === "float" ? value.uses : []))
      .map(wantedBy);
    if (stays.has(node) && !wanted.includes("float")) stays.delete(node);
  }
  for (const node of stays) kept.set(node, "only moves what is in FP32 anyway");

  return { precisionOf, requiredPrecision: wantedBy, fp32Reasons: kept };

  function reasonToKeep(node: NodeProto): string | undefined {
    const signature = signatures.get(node);
    const types = [...table.inputsOf(node), ...table.outputsOf(node)].map(
      (value) => value?.type ?? "",
    );
    if (keep.has(node.opType) || keep.has(node.name)) return "as asked for";
    if (signature === undefined)
      return "its operator is in neither ONNX's nor ONNX Runtime's specification";
    if (isOnnxOp(node, ...CONTROL_FLOW_OPS)) return undefined;
    if (types.some((type) => !isTensorType(type) && /\bfloat\b/.test(type)))
      return "has a sequence, map or optional of FP32 tensors, which cannot be cast";
    const own = findFp32Reason(node) ?? (variances.has(node) ? VARIANCE_REASON : undefined);
    if (own !== undefined) return own;
    const operands = floatsAt(node);
    if (
      table
        .outputsOf(node)
        .some(
          (value, position) => value?.type === "float" && hasTypeOfItsOwn(node, value, position),
        )
    )
      return "nothing tells it to make FP16";
    if (operands.length > 0 && !operands.some(allowsFp16))
      return `takes no FP16 in version ${opsets.get(domainOf(node))} of the operators`;
    return isOnnxOp(node, "QuantizeLinear", "DequantizeLinear") && !hasScaleForFp16(node, operands)
      ? "its scale is too small for FP16, or not a constant, or takes no FP16"
      : undefined;
  }

  /** The operands that are FP32. */
  function floatsAt(node: NodeProto): Operand[] {
    const signature = signatures.get(node);
    return [
      ...floatOperands(signature?.input, table.inputsOf(node)),
      ...floatOperands(signature?.output, table.outputsOf(node)),
    ];
  }

  /** Neither that of an input, nor set by an attribute that the conversion knows. */
  function hasTypeOfItsOwn(node: NodeProto, value: Value, position: number): boolean {
    const [signature, operand] = [signatures.get(node), signatures.get(node)?.output(position)];
    if (
      operand === undefined ||
      !allowsFp16(operand) ||
      isOnnxOp(node, ...TYPE_SETTING_OPS, "ConstantOfShape", "DequantizeLinear") ||
      readConstantTensor(value) !== undefined
    )
      return false;
    return !table
      .inputsOf(node)
      .some(
        (input, at) => input?.type === "float" && isSameVariable(signature?.input(at), operand),
      );
  }

  function hasScaleForFp16(node: NodeProto, operands: readonly Operand[]): boolean {
    const scale = table.inputsOf(node)[1];
    return (
      scale?.type !== "float" ||
      (operands.every(allowsFp16) && readFloatConstant(scale)?.every(isNormalFloat16) === true)
    );
  }

  function movesFp32(node: NodeProto): boolean {
    const moved = table
      .inputsOf(node)
      .filter((value) => value?.type === "float" && readConstantTensor(value) === undefined);
    if (moved.length === 0) return isOnnxOp(node, "Cast", "ConstantOfShape");
    return moved.every((value) => value !== undefined && precisionOf(value) === "float");
  }

  function precisionOf(value: Value): Precision {
    const { origin, graph, uses } = value;
    if (origin.kind === "input" || (origin.kind === "initializer" && !origin.isConstant))
      return inputPrecision(graph);
    if (readConstantTensor(value) !== undefined)
      return uses.map(wantedBy).includes("float") ? "float" : "float16";
    return origin.kind === "node"
      ? operandPrecision(origin.node, signatures.get(origin.node)?.output(origin.position))
      : "float";
  }

  function wantedBy(use: Use): Precision | undefined {
    if (use.kind === "output") return inputPrecision(use.graph);
    const { node, position } = use;
    const precision = operandPrecision(node, signatures.get(node)?.input(position));
    const alone = floatsAt(node).length === 1; // what it makes is not FP32: a shape, an index, a truth value
    return precision === "float16" && (alone || isOnnxOp(node, "Cast")) ? undefined : precision;
  }

  function inputPrecision(graph: GraphProto): Precision {
    if (graph === main) return io;
    return keptBodies.has(graph) ? "float" : "float16";
  }

  function operandPrecision(node: NodeProto, operand: Operand | undefined): Precision {
    if (kept.has(node) || stays.has(node)) return "float";
    return operand !== undefined && allowsFp16(operand) ? "float16" : "float";
  }
}

const allowsFp16 = (operand: Operand): boolean => "variable" in operand && operand.allowsFp16;

const isSameVariable = (one: Operand | undefined, other: Operand): boolean =>
  one !== undefined && "variable" in one && "variable" in other && one.variable === other.variable;

function floatOperands(
  operandAt: Signature["input"] | undefined,
  values: readonly (Value | undefined)[],
): Operand[] {
  return values.flatMap((value, position) => {
    const operand = operandAt?.(position);
    return value?.type === "float" ? [operand ?? { type: "float" }] : [];
  });
}
