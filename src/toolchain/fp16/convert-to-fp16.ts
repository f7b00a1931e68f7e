// Converts FP32 graphs to FP16 for tiers on GPUs, which halves the bytes and multiplies the
// throughput.

import { toolchainErrors } from "../errors.ts";
import type { Model } from "../onnx/model-file.ts";
import { displayNameOf } from "../onnx/nodes.ts";
import { opsetsOf } from "../onnx/operators/signatures.ts";
import { sortTopologically } from "../onnx/topological-sort.ts";
import { type Value, buildValueTable } from "../onnx/value-table.ts";
import { applyPrecisionPlan, type RoundedConstant } from "./apply-precision-plan.ts";
import { planPrecisions } from "./precision-plan.ts";

export interface Fp16Options {
  /** Operators, or names of nodes, that remain in FP32. */
  readonly keep?: readonly string[];
  /** Precision of the graph's FP32 inputs and outputs; `fp32` by default. */
  readonly io?: "fp32" | "fp16";
}

export interface Fp16Report {
  /** Nodes that still compute in FP32, in the graph's order. */
  readonly kept: readonly { readonly node: string; readonly op: string; readonly reason: string }[];
  /** Number of inserted Casts. */
  readonly casts: number;
  /**
   * Constants with values that FP16 cannot round to the nearest number; float16.ts explains the
   * replacements.
   */
  readonly rounded: readonly RoundedConstant[];
}

/** In earlier versions, the `to` attribute of Cast was a string. */
const MIN_OPSET = 6;

/**
 * Changes the model. The result is deterministic for a model and its options.
 * @throws not_convertible, invalid_model_file
 */
export function convertToFp16(
  model: Model,
  { keep = [], io = "fp32" }: Fp16Options = {},
): Fp16Report {
  if (model.trainingInfo.length > 0)
    throw toolchainErrors.notConvertible(
      "it is a training graph",
      "Export the model for inference, without training information.",
    );
  const opsets = opsetsOf(model);
  const opset = opsets.get("");
  if (opset === undefined || opset < MIN_OPSET) {
    const finding =
      opset === undefined
        ? "it declares no version of ONNX's standard operators"
        : `it uses version ${opset} of ONNX's operators`;
    throw toolchainErrors.notConvertible(
      `${finding}, but Cast requires version ${MIN_OPSET} or later`,
      "Export it again with a later opset, or convert it with onnx.version_converter in Python.",
    );
  }
  sortTopologically(model);
  const table = buildValueTable(model);
  const untyped = table.values.find(({ type, uses }) => type === undefined && uses.length > 0);
  if (untyped !== undefined)
    throw toolchainErrors.notConvertible(
      describeUntypedValue(untyped),
      "Store the type in the graph's value_info. In Python: onnx.shape_inference.infer_shapes.",
    );
  for (const excluded of keep) {
    if (!table.nodes.some(({ name, opType }) => excluded === name || excluded === opType))
      throw toolchainErrors.notConvertible(
        `${JSON.stringify(excluded)} in \`keep\` is neither an operator nor a node of the graph`,
        "Correct or omit --keep.",
      );
  }

  const plan = planPrecisions(table, model.graph, {
    opsets,
    keep: new Set(keep),
    io: io === "fp16" ? "float16" : "float",
  });
  const kept = table.nodes.flatMap((node) => {
    const reason = plan.fp32Reasons.get(node);
    return reason === undefined ? [] : [{ node: displayNameOf(node), op: node.opType, reason }];
  });
  return { kept, ...applyPrecisionPlan(model, table, plan) };
}

function describeUntypedValue({ name, origin }: Value): string {
  const producer =
    origin.kind === "node"
      ? `, an output of ${displayNameOf(origin.node)} (${[origin.node.domain, origin.node.opType].filter(Boolean).join(".")})`
      : "";
  return `the type of ${JSON.stringify(name)}${producer} is unknown`;
}
