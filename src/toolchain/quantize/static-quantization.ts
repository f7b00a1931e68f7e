// Quantizes statically in QDQ form: weights and activations become integers, with scales computed
// from samples beforehand. Jacob et al. 2018, "Quantization and Training of Neural Networks for
// Efficient Integer-Arithmetic-Only Inference".

import { toolchainErrors } from "../errors.ts";
import type { Model } from "../onnx/model-file.ts";
import { findAttribute, makeIntAttribute, removeAttribute } from "../onnx/nodes.ts";
import { opsetsOf } from "../onnx/operators/signatures.ts";
import { sortTopologically } from "../onnx/topological-sort.ts";
import type { Value } from "../onnx/value-table.ts";
import {
  detachUses,
  redirectUses,
  GraphRewriter,
  type WeightOptions,
  weightScheme,
} from "./graph-rewriter.ts";
import {
  validateSelection,
  type Fp32Layer,
  type QuantizableLayer,
  assignNodeNames,
  type LayerSelection,
} from "./quantizable-layers.ts";
import {
  type IntegerType,
  type QuantizationParams,
  computeQuantizationParams,
  type ValueRange,
  unionRange,
} from "./quantization-scheme.ts";
import { quantizeWeights } from "./quantize-weights.ts";
import { type StaticPlan, planStaticQuantization } from "./static-plan.ts";

export interface StaticOptions extends LayerSelection, WeightOptions {
  /**
   * `uint8` by default. `int8` requires `int8` weights and is for ARM. On other processors, ONNX
   * Runtime converts it to `uint8`, but only values with a single reader, and computes the rest in
   * FP32.
   */
  readonly activations?: IntegerType | undefined;
  readonly symmetricActivations?: boolean | undefined;
}

/** Ranges of activations, by name: see activation-ranges.ts. */
export type ActivationRanges = ReadonlyMap<string, ValueRange>;

export interface QuantizationReport {
  /** Integer layers, in the graph's order. */
  readonly layers: readonly { readonly node: string; readonly op: string }[];
  readonly kept: readonly Fp32Layer[];
  /** Number of activations that become integers. */
  readonly activations: number;
}

/** First version of DequantizeLinear with per-channel scales. */
const MIN_OPSET = 13;

/**
 * Sorts the nodes and gives each a name.
 * @throws not_quantizable if the operators are too old, or the selection does not match the graph
 */
export function prepareGraph(model: Model, selection: LayerSelection = {}): void {
  const opset = opsetsOf(model).get("") ?? 0;
  if (opset < MIN_OPSET)
    throw toolchainErrors.notQuantizable(
      `it uses version ${opset} of ONNX's operators; version ${MIN_OPSET} or later is required`,
      "Export it again with a later opset, or convert it with onnx.version_converter in Python.",
    );
  sortTopologically(model);
  assignNodeNames(model);
  validateSelection(model, selection);
}

/**
 * Lists the activations whose ranges `quantizeStatic` needs. Options that keep more layers in FP32
 * need a subset of them.
 * @throws not_quantizable
 */
export function findActivationsNeedingRanges(model: Model, options: StaticOptions = {}): string[] {
  prepareGraph(model, options);
  const { activations, scaleSources } = planStaticQuantization(model, options);
  return activations.filter((value) => !scaleSources.has(value)).map(({ name }) => name);
}

/**
 * Changes the model. The result is deterministic for a model, its ranges and options.
 * @throws not_quantizable if an activation has no range, or there is nothing to quantize
 */
export function quantizeStatic(
  model: Model,
  ranges: ActivationRanges,
  options: StaticOptions = {},
): QuantizationReport {
  const { activations: type = "uint8", symmetricActivations = false } = options;
  if (type === "int8" && options.weights === "uint8")
    throw toolchainErrors.notQuantizable(
      "signed activations require signed weights",
      "Use int8 weights, or uint8 activations.",
    );
  prepareGraph(model, options);
  const plan = planStaticQuantization(model, options);
  if (plan.layers.length + plan.embeddings.length === 0)
    throw toolchainErrors.notQuantizable(
      noLayersReason(plan.fp32Layers),
      "Use a graph with Conv, MatMul or Gemm with constant weights, or with Gather of a table.",
    );
  const rewriter = new GraphRewriter(model);
  const params = computeActivationParams(plan, ranges, { type, symmetric: symmetricActivations });
  quantizeActivations(rewriter, plan, params);
  for (const layer of plan.layers)
    quantizeLayer(rewriter, layer, requireParams(params, layer.x).scale, options);
  for (const embedding of plan.embeddings) rewriter.quantizeEmbedding(embedding, options);
  rewriter.apply();
  const quantized = new Set([...plan.layers, ...plan.embeddings].map(({ node }) => node));
  return {
    layers: model.graph.node
      .filter((node) => quantized.has(node))
      .map(({ name, opType }) => ({ node: name, op: opType })),
    kept: plan.fp32Layers,
    activations: plan.activations.length,
  };
}

/**
 * Inserts Q and DQ after each activation of the plan. Activations with the same parameters share
 * constants.
 */
function quantizeActivations(
  rewriter: GraphRewriter,
  plan: StaticPlan,
  params: ReadonlyMap<Value, QuantizationParams>,
): void {
  const constants = new Map<QuantizationParams, { scale: string; zeroPoint: string }>();
  for (const value of plan.activations) {
    const valueParams = requireParams(params, value);
    const { scale, zeroPoint } =
      constants.get(valueParams) ?? rewriter.addQuantizationParams(value.name, valueParams);
    constants.set(valueParams, { scale, zeroPoint });
    const { restored, uses } = detachUses(value, rewriter);
    const [integers, reals] = [
      rewriter.reserveName(`${value.name}_quantized`),
      restored ?? rewriter.reserveName(`${value.name}_dequantized`),
    ];
    const held = plan.isFp32LayerOutput(value)
      ? rewriter.reserveName(`${value.name}_held`)
      : value.name;
    rewriter.insertAfterOrigin(
      value,
      ...(held === value.name
        ? []
        : [rewriter.createNode({ op: "Max", inputs: [value.name], outputs: [held] })]),
      rewriter.createNode({
        op: "QuantizeLinear",
        inputs: [held, scale, zeroPoint],
        outputs: [integers],
      }),
      rewriter.createNode({
        op: "DequantizeLinear",
        inputs: [integers, scale, zeroPoint],
        outputs: [reals],
      }),
    );
    redirectUses(uses, reals);
  }
}

/**
 * A moved value shares the scale of its source. A joined value has a scale that covers all its
 * sources.
 */
function computeActivationParams(
  { activations, scaleSources }: StaticPlan,
  ranges: ActivationRanges,
  scheme: { type: IntegerType; symmetric: boolean },
): ReadonlyMap<Value, QuantizationParams> {
  const params = new Map<Value, QuantizationParams>();
  const usedRanges = new Map<Value, ValueRange>();
  for (const value of activations) {
    const sources = (scaleSources.get(value) ?? []).map((source) => ({
      range: usedRanges.get(source),
      params: params.get(source),
    }));
    const [firstSource, ...otherSources] = sources;
    const joined =
      firstSource?.range &&
      otherSources.reduce(
        (union, { range }) => (range === undefined ? union : unionRange(union, range)),
        firstSource.range,
      );
    const range = joined ?? ranges.get(value.name);
    if (range === undefined)
      throw toolchainErrors.notQuantizable(
        `the range of ${JSON.stringify(value.name)} is unknown`,
        "Collect ranges on samples, with the same options or with options that keep fewer layers.",
      );
    const equalSource = sources.find(
      (source) => source.range?.low === range.low && source.range.high === range.high,
    );
    usedRanges.set(value, range);
    params.set(value, equalSource?.params ?? computeQuantizationParams(range, scheme));
  }
  return params;
}

/** Maximum magnitude of a bias in steps: the INT32 range with a margin for rounding. */
const MAX_BIAS = 2 ** 31 - 2 ** 8;

function quantizeLayer(
  rewriter: GraphRewriter,
  { node, op, weights, bias }: QuantizableLayer,
  xScale: number,
  options: WeightOptions,
): void {
  const { perChannel = true } = options;
  const scheme = weightScheme(options, op);
  // A bias is stored in steps of the product of both scales, so the scale must be large enough.
  const channelMinScales = Array.from(bias ?? [], (value) => Math.abs(value) / (MAX_BIAS * xScale));
  const minScales = perChannel
    ? channelMinScales
    : [channelMinScales.reduce((largest, scale) => Math.max(largest, scale), 0)];
  const quantized = quantizeWeights(
    weights,
    perChannel ? weights.axis : undefined,
    scheme,
    minScales,
  );
  const names = rewriter.addWeights(
    weights.value.name,
    weights.dims,
    scheme.type,
    quantized,
    perChannel,
  );
  const reals = rewriter.reserveName(`${weights.value.name}_dequantized`);
  const axis = perChannel ? [makeIntAttribute("axis", weights.axis)] : [];
  rewriter.insertFirst(
    rewriter.createNode({
      op: "DequantizeLinear",
      inputs: [names.values, names.scale, names.zeroPoint],
      outputs: [reals],
      attributes: axis,
    }),
  );
  node.input[1] = reals;
  if (op === "Gemm")
    for (const factor of ["alpha", "beta"])
      if (findAttribute(node, factor) !== undefined) removeAttribute(node, factor);
  if (bias === undefined) return;
  const scales = quantized.scales.map((scale) => xScale * scale);
  const counts = Int32Array.from(bias, (value, channel) =>
    Math.round(value / (scales[perChannel ? channel : 0] ?? 1)),
  );
  const biasName = node.input[2] ?? "bias";
  const realBias = rewriter.reserveName(`${biasName}_dequantized`);
  const inputs = [
    rewriter.addConstant(`${biasName}_quantized`, "int32", [counts.length], counts),
    rewriter.addConstant(`${biasName}_scale`, "float", perChannel ? [scales.length] : [], scales),
  ];
  rewriter.insertFirst(
    rewriter.createNode({
      op: "DequantizeLinear",
      inputs,
      outputs: [realBias],
      attributes: perChannel ? [makeIntAttribute("axis", 0)] : [],
    }),
  );
  node.input[2] = realBias;
}

function requireParams(
  params: ReadonlyMap<Value, QuantizationParams>,
  value: Value,
): QuantizationParams {
  const found = params.get(value);
  if (found === undefined) throw new RangeError(`${value.name} has no quantization parameters`);
  return found;
}

export const noLayersReason = (fp32Layers: readonly Fp32Layer[]): string =>
  fp32Layers.length === 0
    ? "it has no layers that integers can compute"
    : `integers can compute none of its ${fp32Layers.length} layers: ${[...new Set(fp32Layers.map(({ reason }) => reason))].join("; ")}`;
