// Plans which parts of a graph become FP16. Each FP32 value gets the precision of its origin, and
// each use may require one. A mismatch later becomes a Cast, or a second copy of a constant.

import { readFloatConstant, readConstantTensor } from "../onnx/constants.ts";
import { subgraphsOf, traverseGraphs } from "../onnx/graph-traversal.ts";
import { domainOf, isOnnxOp } from "../onnx/nodes.ts";
import {
  type Operand,
  type Signature,
  findSignature,
  type Opsets,
} from "../onnx/operators/signatures.ts";
import type { GraphProto, NodeProto } from "../onnx/proto/onnx_pb.js";
import { isTensorType } from "../onnx/type-inference.ts";
import type { Use, Value, ValueTable } from "../onnx/value-table.ts";
import { isNormalFloat16 } from "./float16.ts";
import { findFp32Reason, VARIANCE_REASON, findVarianceNodes } from "./fp32-operators.ts";

export type Precision = "float" | "float16";

export interface PrecisionPlanOptions {
  readonly opsets: Opsets;
  /** Operators and names of nodes that remain in FP32. */
  readonly keep: ReadonlySet<string>;
  /** Precision of the FP32 inputs and outputs of the main graph. */
  readonly io: Precision;
}

export interface PrecisionPlan {
  /** Precision in which an FP32 value is produced. */
  precisionOf(value: Value): Precision;
  /** Precision that a use of an FP32 value requires; undefined if it accepts both. */
  requiredPrecision(use: Use): Precision | undefined;
  /** Nodes that compute in FP32, and the reasons. */
  readonly fp32Reasons: ReadonlyMap<NodeProto, string>;
}

/** Operators that move values without computing. */
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
/** Operators with an attribute that sets their output type. */
export const TYPE_SETTING_OPS = ["Cast", "Bernoulli"];
/** Operators whose input and output types come from their bodies. */
const CONTROL_FLOW_OPS = ["If", "Loop", "Scan"];

export function planPrecisions(
  table: ValueTable,
  main: GraphProto,
  options: PrecisionPlanOptions,
): PrecisionPlan {
  const planner = new PrecisionPlanner(table, main, options);
  planner.keepFp32Nodes();
  planner.keepFp32Movements();
  return {
    precisionOf: (value) => planner.precisionOf(value),
    requiredPrecision: (use) => planner.requiredPrecision(use),
    fp32Reasons: planner.fp32Reasons,
  };
}

class PrecisionPlanner {
  readonly fp32Reasons = new Map<NodeProto, string>();
  readonly #table: ValueTable;
  readonly #main: GraphProto;
  readonly #options: PrecisionPlanOptions;
  readonly #signatures: ReadonlyMap<NodeProto, Signature | undefined>;
  readonly #variances: ReadonlySet<NodeProto>;
  readonly #fp32Bodies = new Set<GraphProto>();
  /** Nodes that move values from FP32 producers to FP32 readers. */
  readonly #fp32Movements = new Set<NodeProto>();

  constructor(table: ValueTable, main: GraphProto, options: PrecisionPlanOptions) {
    this.#table = table;
    this.#main = main;
    this.#options = options;
    this.#signatures = new Map(
      table.nodes.map((node) => [node, findSignature(node, options.opsets)]),
    );
    this.#variances = new Set(findVarianceNodes(table));
  }

  keepFp32Nodes(): void {
    // In reverse order, a node precedes the nodes of its bodies.
    for (const node of this.#table.nodes.toReversed()) {
      const reason = this.fp32Reasons.get(node) ?? this.#findReason(node);
      if (reason === undefined) continue;
      if (this.#floatOperandsOf(node).length > 0) this.fp32Reasons.set(node, reason);
      const bodies = subgraphsOf(node).flatMap((body) => [...traverseGraphs(body)]);
      for (const body of bodies) {
        this.#fp32Bodies.add(body);
        for (const inner of body.node)
          if (this.#floatOperandsOf(inner).length > 0)
            this.fp32Reasons.set(inner, "belongs to the body of a node in FP32");
      }
    }
  }

  keepFp32Movements(): void {
    for (const node of this.#table.nodes)
      if (
        isOnnxOp(node, ...DATA_MOVEMENT_OPS) &&
        !this.fp32Reasons.has(node) &&
        this.#movesFp32(node)
      )
        this.#fp32Movements.add(node);
    for (const node of this.#table.nodes.toReversed()) {
      const required = this.#table
        .outputsOf(node)
        .flatMap((value) => (value?.type === "float" ? value.uses : []))
        .map((use) => this.requiredPrecision(use));
      if (!required.includes("float")) this.#fp32Movements.delete(node);
    }
    for (const node of this.#fp32Movements)
      this.fp32Reasons.set(node, "only moves values that are in FP32 anyway");
  }

  precisionOf(value: Value): Precision {
    const { origin, graph, uses } = value;
    if (origin.kind === "input" || (origin.kind === "initializer" && !origin.isConstant))
      return this.#boundaryPrecision(graph);
    if (readConstantTensor(value) !== undefined)
      return uses.some((use) => this.requiredPrecision(use) === "float") ? "float" : "float16";
    if (origin.kind !== "node") return "float";
    const { node, position } = origin;
    return this.#operandPrecision(node, this.#signatures.get(node)?.output(position));
  }

  requiredPrecision(use: Use): Precision | undefined {
    if (use.kind === "output") return this.#boundaryPrecision(use.graph);
    const { node, position } = use;
    const precision = this.#operandPrecision(node, this.#signatures.get(node)?.input(position));
    // With a single FP32 operand, the node's results are shapes, indices or booleans.
    const isOnlyOperand = this.#floatOperandsOf(node).length === 1;
    return precision === "float16" && (isOnlyOperand || isOnnxOp(node, "Cast"))
      ? undefined
      : precision;
  }

  #findReason(node: NodeProto): string | undefined {
    const { keep, opsets } = this.#options;
    const table = this.#table;
    if (keep.has(node.opType) || keep.has(node.name)) return "kept on request";
    if (this.#signatures.get(node) === undefined)
      return "its operator is not specified by ONNX or ONNX Runtime";
    if (isOnnxOp(node, ...CONTROL_FLOW_OPS)) return undefined;
    const types = [...table.inputsOf(node), ...table.outputsOf(node)].map(
      (value) => value?.type ?? "",
    );
    if (types.some((type) => !isTensorType(type) && /\bfloat\b/.test(type)))
      return "has a sequence, map or optional of FP32 tensors, which cannot be cast";
    const reason =
      findFp32Reason(node) ?? (this.#variances.has(node) ? VARIANCE_REASON : undefined);
    if (reason !== undefined) return reason;
    if (this.#hasFixedFloatOutput(node)) return "its output type cannot be set to FP16";
    const operands = this.#floatOperandsOf(node);
    if (operands.length > 0 && !operands.some(allowsFp16))
      return `does not support FP16 in version ${opsets.get(domainOf(node))} of the operators`;
    const isQuantization = isOnnxOp(node, "QuantizeLinear", "DequantizeLinear");
    return isQuantization && !this.#hasFp16Scale(node, operands)
      ? "its scale is too small for FP16, is not constant, or does not support FP16"
      : undefined;
  }

  #floatOperandsOf(node: NodeProto): Operand[] {
    const signature = this.#signatures.get(node);
    return [
      ...selectFloatOperands(signature?.input, this.#table.inputsOf(node)),
      ...selectFloatOperands(signature?.output, this.#table.outputsOf(node)),
    ];
  }

  #hasFixedFloatOutput(node: NodeProto): boolean {
    return this.#table
      .outputsOf(node)
      .some(
        (value, position) =>
          value?.type === "float" && this.#hasIndependentType(node, value, position),
      );
  }

  /** Tells whether neither an input nor a known attribute determines the output's type. */
  #hasIndependentType(node: NodeProto, value: Value, position: number): boolean {
    const signature = this.#signatures.get(node);
    const operand = signature?.output(position);
    if (
      operand === undefined ||
      !allowsFp16(operand) ||
      isOnnxOp(node, ...TYPE_SETTING_OPS, "ConstantOfShape", "DequantizeLinear") ||
      readConstantTensor(value) !== undefined
    )
      return false;
    return !this.#table
      .inputsOf(node)
      .some(
        (input, inputPosition) =>
          input?.type === "float" && isSameVariable(signature?.input(inputPosition), operand),
      );
  }

  #hasFp16Scale(node: NodeProto, operands: readonly Operand[]): boolean {
    const scale = this.#table.inputsOf(node)[1];
    return (
      scale?.type !== "float" ||
      (operands.every(allowsFp16) && readFloatConstant(scale)?.every(isNormalFloat16) === true)
    );
  }

  #movesFp32(node: NodeProto): boolean {
    const moved = this.#table
      .inputsOf(node)
      .filter((value) => value?.type === "float" && readConstantTensor(value) === undefined);
    if (moved.length === 0) return isOnnxOp(node, "Cast", "ConstantOfShape");
    return moved.every((value) => value !== undefined && this.precisionOf(value) === "float");
  }

  /** Returns the precision of a graph's inputs and outputs. */
  #boundaryPrecision(graph: GraphProto): Precision {
    if (graph === this.#main) return this.#options.io;
    return this.#fp32Bodies.has(graph) ? "float" : "float16";
  }

  #operandPrecision(node: NodeProto, operand: Operand | undefined): Precision {
    if (this.fp32Reasons.has(node) || this.#fp32Movements.has(node)) return "float";
    return operand !== undefined && allowsFp16(operand) ? "float16" : "float";
  }
}

const allowsFp16 = (operand: Operand): boolean => "variable" in operand && operand.allowsFp16;

const isSameVariable = (operand: Operand | undefined, other: Operand): boolean =>
  operand !== undefined &&
  "variable" in operand &&
  "variable" in other &&
  operand.variable === other.variable;

function selectFloatOperands(
  operandAt: Signature["input"] | undefined,
  values: readonly (Value | undefined)[],
): Operand[] {
  return values.flatMap((value, position) => {
    const operand = operandAt?.(position);
    return value?.type === "float" ? [operand ?? { type: "float" }] : [];
  });
}
