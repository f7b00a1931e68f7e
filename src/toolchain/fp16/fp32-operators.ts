// Operators that ONNX has in FP16 but that lose too much there, or that ONNX Runtime cannot load, and why. What ONNX has no
// FP16 form for is known from its signatures. Not among them, unlike in other converters: operators for which only some
// runtime has no FP16 kernel (Min, Max, TopK, Resize, Upsample); ONNX Runtime puts casts around those itself. It does so
// only where an input is FP16.

import { constantOf } from "../onnx/constants.ts";
import { domainOf, isOnnxNode } from "../onnx/nodes.ts";
import type { NodeProto } from "../onnx/proto/onnx_pb.js";
import type { ValueTable } from "../onnx/values.ts";

const SUMS = "sums of squares or exponentials leave FP16's range";
const COORDINATES = "coordinates: FP16 has no fractions above 1,024";
const FROM_NOTHING = "ONNX Runtime's CPU provider cannot make FP16 numbers out of none";

const reasons: Readonly<Record<string, string>> = {
  CumSum: "a running sum: FP16 cannot add 1 to 2,048",
  ReduceSumSquare: SUMS,
  ReduceL2: SUMS,
  ReduceLogSumExp: SUMS,
  LpNormalization: SUMS,
  DFT: SUMS,
  STFT: SUMS,
  MeanVarianceNormalization: SUMS,
  EyeLike: FROM_NOTHING,
  MelWeightMatrix: FROM_NOTHING,
  BlackmanWindow: FROM_NOTHING,
  HammingWindow: FROM_NOTHING,
  HannWindow: FROM_NOTHING,
  RoiAlign: COORDINATES,
  GridSample: COORDINATES,
  AffineGrid: COORDINATES,
  RandomNormal: FROM_NOTHING,
  RandomNormalLike: FROM_NOTHING,
  RandomUniform: FROM_NOTHING,
  RandomUniformLike: FROM_NOTHING,
  Det: "differences of products cancel",
  BitCast: "reads the bits of an FP32 number",
  QLinearMatMul: "computes in INT8; only its scales are FP32, and FP16 would make them coarse",
};

/** Of the operators that ONNX and ONNX Runtime specify, some under one name. */
export function reasonForFp32(node: NodeProto): string | undefined {
  if (domainOf(node) === "ai.onnx.ml") return "has FP32 numbers in its attributes";
  return ["", "com.microsoft"].includes(domainOf(node)) && Object.hasOwn(reasons, node.opType)
    ? reasons[node.opType]
    : undefined;
}

export const SQUARES =
  "part of a variance: squares above 255 leave FP16's range, and its smallest steps are coarser than epsilon";

/**
 * Normalisations written out in parts, as exporters did before LayerNormalization and RMSNormalization were operators: a
 * square, its mean or sum, then up to a division or multiplication by the root of it.
 */
export function* varianceNodes(table: ValueTable): Generator<NodeProto> {
  for (const square of table.nodes) {
    if (!isSquare(table, square)) continue;
    const mean = onlyReader(table, square);
    if (mean === undefined || !isOnnxNode(mean, "ReduceMean", "ReduceSum", "GlobalAveragePool"))
      continue;
    const root = rootAfter(table, mean);
    if (root !== undefined) yield* [square, mean, ...root];
  }
}

function isSquare(table: ValueTable, node: NodeProto): boolean {
  const [base, exponent] = table.inputsOf(node);
  if (isOnnxNode(node, "Mul")) return base !== undefined && base === exponent;
  return isOnnxNode(node, "Pow") && constantOf(exponent)?.every((value) => value === 2) === true;
}

/** The nodes from a mean's reader on, up to what is divided or multiplied by the root; undefined where no root is taken. */
function rootAfter(table: ValueTable, mean: NodeProto): NodeProto[] | undefined {
  const path: NodeProto[] = [];
  let rooted = false;
  for (
    let node = onlyReader(table, mean);
    node !== undefined && path.length < 6;
    node = onlyReader(table, node)
  ) {
    const normalises =
      rooted && isOnnxNode(node, "Div", "Mul") && !constantOf(table.inputsOf(node)[0]); // 1 / root is a step on the way
    if (
      !normalises &&
      !isOnnxNode(
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
    if (normalises) break;
    rooted ||= isOnnxNode(node, "Sqrt", "Pow");
  }
  return rooted ? path : undefined;
}

function onlyReader(table: ValueTable, node: NodeProto): NodeProto | undefined {
  const [use, ...others] = table.outputsOf(node)[0]?.uses ?? [];
  return use?.kind === "node" && others.length === 0 ? use.node : undefined;
}
