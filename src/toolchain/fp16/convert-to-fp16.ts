// FP32 graphs to FP16, for tiers on GPUs: half the bytes, and several times the arithmetic.

import { toolchainErrors } from "../errors.ts";
import type { Model } from "../onnx/model-file.ts";
import { displayNameOf } from "../onnx/nodes.ts";
import { opsetsOf } from "../onnx/operators/signatures.ts";
import { sortTopologically } from "../onnx/topological-sort.ts";
import { type Value, buildValueTable } from "../onnx/value-table.ts";
import { planPrecisions } from "./precision-plan.ts";
import { applyPrecisionPlan, type RoundedConstant } from "./apply-precision-plan.ts";

export interface Fp16Options {
  /** Operators, or names of nodes, that stay in FP32. */
  readonly keep?: readonly string[];
  /** The precision of the graph's own inputs and outputs that are FP32 (the default). */
  readonly io?: "fp32" | "fp16";
}

export interface Fp16Report {
  /** Nodes that compute with FP32 numbers still, in the graph's order. */
  readonly kept: readonly { readonly node: string; readonly op: string; readonly reason: string }[];
  /** Casts that were put in. */
  readonly casts: number;
  /** Constants of which some numbers are not the nearest that FP16 has: float16.ts says what became of them. */
  readonly rounded: readonly RoundedConstant[];
}

/** Before it, the attribute of Cast was a text. */
const MIN_OPSET = 6;

/**
 * Changes the model. The same model and options give the same result.
 * @throws not_convertible, invalid_model_file
 */
export function convertToFp16(
  model: Model,
  { keep = [], io = "fp32" }: Fp16Options = {},
): Fp16Report {
  if (model.trainingInfo.length > 0)
    throw toolchainErrors.notConvertible(
      "it is a training graph",
      "Export the model for inference.",
    );
  const opsets = opsetsOf(model);
  const opset = opsets.get("");
  if (opset === undefined || opset < MIN_OPSET) {
    const found =
      opset === undefined
        ? "it uses none of ONNX's own operators"
        : `it uses version ${opset} of ONNX's operators`;
    throw toolchainErrors.notConvertible(
      `${found}, and version ${MIN_OPSET} or later is needed for Cast`,
      "Export it again with a later opset, or use onnx.version_converter in Python.",
    );
  }
  sortTopologically(model);
  const table = buildValueTable(model);
  const unknown = table.values.find(({ type, uses }) => type === undefined && uses.length > 0);
  if (unknown !== undefined)
    throw toolchainErrors.notConvertible(
      describeUntypedValue(unknown),
      "Store it in the graph's value_info: in Python, onnx.shape_inference.infer_shapes.",
    );
  for (const wanted of keep) {
    if (!table.nodes.some(({ name, opType }) => wanted === name || wanted === opType))
      throw toolchainErrors.notConvertible(
        `${JSON.stringify(wanted)}, to be kept, is neither an operator nor a node in it`,
        "Correct or leave out --keep.",
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
  const maker =
    origin.kind === "node"
      ? `, which ${displayNameOf(origin.node)} (${[origin.node.domain, origin.node.opType].filter(Boolean).join(".")}) makes`
      : "";
  return `nothing tells the type of ${JSON.stringify(name)}${maker}`;
}
