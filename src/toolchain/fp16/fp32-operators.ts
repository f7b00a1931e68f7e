// Lists operators that ONNX defines in FP16 but that lose too much precision there, or that ONNX
// Runtime cannot load, with the reason. Operators without an FP16 form are known from their
// signatures.
//
// Unlike in other converters, operators that lack an FP16 kernel in some runtime only (Min, Max,
// TopK, Resize, Upsample) are not listed. ONNX Runtime surrounds them with casts if an input is
// FP16.

import { readFloatConstant } from "../onnx/constants.ts";
import { domainOf, isOnnxOp } from "../onnx/nodes.ts";
import type { NodeProto } from "../onnx/proto/onnx_pb.js";
import type { ValueTable } from "../onnx/value-table.ts";

const OVERFLOWING_SUM = "sums of squares or exponentials leave FP16's range";
const COORDINATE_PRECISION = "coordinates: FP16 has no fractions above 1,024";
const NO_FP16_INPUT =
  "ONNX Runtime's CPU provider cannot create FP16 numbers without an FP16 input";

const FP32_REASONS: Readonly<Record<string, string>> = {
  CumSum: "a running sum: FP16 cannot add 1 to 2,048",
  ReduceSumSquare: OVERFLOWING_SUM,
  ReduceL2: OVERFLOWING_SUM,
  ReduceLogSumExp: OVERFLOWING_SUM,
  LpNormalization: OVERFLOWING_SUM,
  DFT: OVERFLOWING_SUM,
  STFT: OVERFLOWING_SUM,
  MeanVarianceNormalization: OVERFLOWING_SUM,
  EyeLike: NO_FP16_INPUT,
  MelWeightMatrix: NO_FP16_INPUT,
  BlackmanWindow: NO_FP16_INPUT,
  HammingWindow: NO_FP16_INPUT,
  HannWindow: NO_FP16_INPUT,
  RoiAlign: COORDINATE_PRECISION,
  GridSample: COORDINATE_PRECISION,
  AffineGrid: COORDINATE_PRECISION,
  RandomNormal: NO_FP16_INPUT,
  RandomNormalLike: NO_FP16_INPUT,
  RandomUniform: NO_FP16_INPUT,
  RandomUniformLike: NO_FP16_INPUT,
  Det: "differences of products cancel",
  BitCast: "reads the bits of an FP32 number",
  QLinearMatMul: "computes in INT8; only its scales are FP32, and FP16 would make them too coarse",
};

/** Covers the operators of ONNX and ONNX Runtime, which share some names. */
export function findFp32Reason(node: NodeProto): string | undefined {
  if (domainOf(node) === "ai.onnx.ml") return "has FP32 numbers in its attributes";
  return ["", "com.microsoft"].includes(domainOf(node)) && Object.hasOwn(FP32_REASONS, node.opType)
    ? FP32_REASONS[node.opType]
    : undefined;
}

export const VARIANCE_REASON =
  "part of a variance: squares above 255 leave FP16's range, and its smallest steps are coarser than epsilon";

/**
 * Finds normalizations that consist of separate operators, as exporters wrote them before
 * LayerNormalization and RMSNormalization existed. The pattern is a square, its mean or sum, and a
 * division or multiplication by the root.
 */
export function* findVarianceNodes(table: ValueTable): Generator<NodeProto> {
  for (const square of table.nodes) {
    if (!isSquare(table, square)) continue;
    const mean = findSoleConsumer(table, square);
    if (mean === undefined || !isOnnxOp(mean, "ReduceMean", "ReduceSum", "GlobalAveragePool"))
      continue;
    const root = findRootPath(table, mean);
    if (root !== undefined) yield* [square, mean, ...root];
  }
}

function isSquare(table: ValueTable, node: NodeProto): boolean {
  const [base, exponent] = table.inputsOf(node);
  if (isOnnxOp(node, "Mul")) return base !== undefined && base === exponent;
  return (
    isOnnxOp(node, "Pow") && readFloatConstant(exponent)?.every((value) => value === 2) === true
  );
}

/**
 * Returns the nodes from the mean's reader up to the division or multiplication by the root;
 * undefined without a root.
 */
function findRootPath(table: ValueTable, mean: NodeProto): NodeProto[] | undefined {
  const path: NodeProto[] = [];
  let hasRoot = false;
  for (
    let node = findSoleConsumer(table, mean);
    node !== undefined && path.length < 6;
    node = findSoleConsumer(table, node)
  ) {
    // 1 / root is an intermediate step, not yet the normalization.
    const normalizes =
      hasRoot && isOnnxOp(node, "Div", "Mul") && !readFloatConstant(table.inputsOf(node)[0]);
    if (
      !normalizes &&
      !isOnnxOp(
        node,
        "Sqrt",
        "Pow",
        "Add",
        "Max",
        "Clip",
        "Reciprocal",
        "Div",
        "Mul",
        "Reshape",
        "Unsqueeze",
      )
    )
      break;
    path.push(node);
    if (normalizes) break;
    hasRoot ||= isOnnxOp(node, "Sqrt", "Pow");
  }
  return hasRoot ? path : undefined;
}

function findSoleConsumer(table: ValueTable, node: NodeProto): NodeProto | undefined {
  const [use, ...others] = table.outputsOf(node)[0]?.uses ?? [];
  return use?.kind === "node" && others.length === 0 ? use.node : undefined;
}
