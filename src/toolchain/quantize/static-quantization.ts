// Static quantisation in QDQ form: weights and activations as integers with scales that were found beforehand, on samples.
// Jacob et al. 2018, "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference".

import { toolchainErrors } from "../errors.ts";
import type { Model } from "../onnx/model-file.ts";
import { findAttribute, makeIntAttribute, removeAttribute } from "../onnx/nodes.ts";
import { opsetsOf } from "../onnx/operators/signatures.ts";
import { sortTopologically } from "../onnx/topological-sort.ts";
import type { Value } from "../onnx/value-table.ts";
import {
  validateSelection,
  type Fp32Layer,
  type QuantizableLayer,
  assignNodeNames,
  type LayerSelection,
} from "./quantizable-layers.ts";
import { type StaticPlan, planStaticQuantization } from "./static-plan.ts";
import {
  detachUses,
  redirectUses,
  GraphRewriter,
  type WeightOptions,
  weightScheme,
} from "./graph-rewriter.ts";
import {
  type IntegerType,
  type QuantizationParams,
  computeQuantizationParams,
  type ValueRange,
  unionRange,
} from "./quantization-scheme.ts";
import { quantizeWeights } from "./quantize-weights.ts";

export interface StaticOptions extends LayerSelection, WeightOptions {
  /**
   * `uint8` by default. `int8` takes `int8` weights, and is for ARM: elsewhere ONNX Runtime makes it `uint8`, but only what one
   * operator reads, and computes the rest in FP32.
   */
  readonly activations?: IntegerType | undefined;
  readonly symmetricActivations?: boolean | undefined;
}

/** Of activations, by name: see activation-ranges.ts. */
export type ActivationRanges = ReadonlyMap<string, ValueRange>;

export interface QuantizationReport {
  /** Layers in integers, in the graph's order. */
  readonly layers: readonly { readonly node: string; readonly op: string }[];
  readonly kept: readonly Fp32Layer[];
  /** Activations that become integers. */
  readonly activations: number;
}

/** The version of DequantizeLinear that takes a scale for each channel. */
const MIN_OPSET = 13;

/** Puts nodes in order, and gives each a name. @throws not_quantizable for operators of an old version, and for a selection of what is not there */
export function prepareGraph(model: Model, selection: LayerSelection = {}): void {
  const opset = opsetsOf(model).get("") ?? 0;
  if (opset < MIN_OPSET)
    throw toolchainErrors.notQuantizable(
      `it uses version ${opset} of ONNX's operators, and version ${MIN_OPSET} or later is needed`,
      "Export it again with a later opset, or use onnx.version_converter in Python.",
    );
  sortTopologically(model);
  assignNodeNames(model);
  validateSelection(model, selection);
}

/**
 * The activations whose ranges `quantizeStatic` needs, by the options with most of them: with fewer layers it needs fewer.
 * @throws not_quantizable
 */
export function findActivationsNeedingRanges(model: Model, options: StaticOptions = {}): string[] {
  prepareGraph(model, options);
  const { activations, scaleSources: sources } = planStaticQuantization(model, options);
  return activations.filter((value) => !sources.has(value)).map(({ name }) => name);
}

/**
 * Changes the model. The same model, ranges and options give the same result.
 * @throws not_quantizable if an activation has no range, or there is nothing to quantise
 */
export function quantizeStatic(
  model: Model,
  ranges: ActivationRanges,
  options: StaticOptions = {},
): QuantizationReport {
  const { activations: type = "uint8", symmetricActivations = false, perChannel = true } = options;
  if (type === "int8" && options.weights === "uint8")
    throw toolchainErrors.notQuantizable(
      "signed activations go with signed weights only",
      "Take int8 weights, or uint8 activations.",
    );
  prepareGraph(model, options);
  const plan = planStaticQuantization(model, options);
  if (plan.layers.length + plan.embeddings.length === 0)
    throw toolchainErrors.notQuantizable(
      noLayersReason(plan.fp32Layers),
      "Integers pay for Conv, MatMul and Gemm with constant weights, and for Gather of a table.",
    );
  const rewriter = new GraphRewriter(model);
  const quantisations = computeActivationParams(plan, ranges, {
    type,
    symmetric: symmetricActivations,
  });

  const constants = new Map<QuantizationParams, { scale: string; zeroPoint: string }>();
  for (const value of plan.activations) {
    const quantisation = requireParams(quantisations, value);
    const { scale, zeroPoint } =
      constants.get(quantisation) ?? rewriter.addQuantizationParams(value.name, quantisation);
    constants.set(quantisation, { scale, zeroPoint });
    const { restored, uses } = detachUses(value, rewriter);
    const [integers, reals] = [
      rewriter.reserveName(`${value.name}_quantised`),
      restored ?? rewriter.reserveName(`${value.name}_dequantised`),
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
  for (const layer of plan.layers)
    quantizeLayer(
      rewriter,
      layer,
      requireParams(quantisations, layer.x).scale,
      perChannel,
      options,
    );
  for (const embedding of plan.embeddings) rewriter.quantizeEmbedding(embedding, options);
  rewriter.apply();
  const done = new Set([...plan.layers, ...plan.embeddings].map(({ node }) => node));
  return {
    layers: model.graph.node
      .filter((node) => done.has(node))
      .map(({ name, opType }) => ({ node: name, op: opType })),
    kept: plan.fp32Layers,
    activations: plan.activations.length,
  };
}

/** What is moved has the scale of what it is moved from, and what is joined one that holds all of it. */
function computeActivationParams(
  { activations, scaleSources: sources }: StaticPlan,
  ranges: ActivationRanges,
  scheme: { type: IntegerType; symmetric: boolean },
): ReadonlyMap<Value, QuantizationParams> {
  const found = new Map<Value, QuantizationParams>();
  const wanted = new Map<Value, ValueRange>();
  for (const value of activations) {
    const [source, ...others] = (sources.get(value) ?? []).map((one) => ({
      range: wanted.get(one),
      quantisation: found.get(one),
    }));
    const joined =
      source?.range &&
      others.reduce(
        (all, { range }) => (range === undefined ? all : unionRange(all, range)),
        source.range,
      );
    const range = joined ?? ranges.get(value.name);
    if (range === undefined)
      throw toolchainErrors.notQuantizable(
        `the range of ${JSON.stringify(value.name)} is not known`,
        "Calibrate it on samples, with the same options or with ones that keep fewer layers.",
      );
    const same = [source, ...others].find(
      (one) =>
        one?.range !== undefined && one.range.low === range.low && one.range.high === range.high,
    );
    wanted.set(value, range);
    found.set(value, same?.quantisation ?? computeQuantizationParams(range, scheme));
  }
  return found;
}

/** Steps of a bias: of INT32, a few left for rounding. */
const MAX_BIAS = 2 ** 31 - 2 ** 8;

function quantizeLayer(
  rewriter: GraphRewriter,
  { node, op, weights, bias }: QuantizableLayer,
  xScale: number,
  perChannel: boolean,
  options: WeightOptions,
): void {
  const scheme = weightScheme(options, op);
  // A bias is counted in steps of both scales' product, and has to fit.
  const least = Array.from(bias ?? [], (one) => Math.abs(one) / (MAX_BIAS * xScale));
  const smallest = perChannel ? least : [least.reduce((largest, one) => Math.max(largest, one), 0)];
  const quantised = quantizeWeights(
    weights,
    perChannel ? weights.axis : undefined,
    scheme,
    smallest,
  );
  const names = rewriter.addWeights(
    weights.value.name,
    weights.dims,
    scheme.type,
    quantised,
    perChannel,
  );
  const reals = rewriter.reserveName(`${weights.value.name}_dequantised`);
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
  const scales = quantised.scales.map((scale) => xScale * scale);
  const counts = Int32Array.from(bias, (one, channel) =>
    Math.round(one / (scales[perChannel ? channel : 0] ?? 1)),
  );
  const biasName = node.input[2] ?? "bias";
  const realBias = rewriter.reserveName(`${biasName}_dequantised`);
  const inputs = [
    rewriter.addConstant(`${biasName}_quantised`, "int32", [counts.length], counts),
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
  quantisations: ReadonlyMap<Value, QuantizationParams>,
  value: Value,
): QuantizationParams {
  const found = quantisations.get(value);
  if (found === undefined) throw new RangeError(`${value.name} has no scale`);
  return found;
}

export const noLayersReason = (kept: readonly Fp32Layer[]): string =>
  kept.length === 0
    ? "it has no layer that could be in integers"
    : `none of its ${kept.length} layers could be in integers: ${[...new Set(kept.map(({ reason }) => reason))].join("; ")}`;
