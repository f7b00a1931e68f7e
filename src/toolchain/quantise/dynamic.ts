// Dynamic quantisation: weights are integers, and activations become ones as they come, with the scale of their own range.
// No samples are needed, but a result depends on what else is in its batch. Convolutions stay in FP32: ONNX Runtime's
// ConvInteger takes longer than they do.

import { toolchainErrors } from "../errors.ts";
import type { Model } from "../onnx/model-file.ts";
import { attributeOf, intAttribute } from "../onnx/nodes.ts";
import { codeOf } from "../onnx/tensors.ts";
import { type Value, valuesOf } from "../onnx/values.ts";
import {
  type Embedding,
  embeddingOf,
  type Kept,
  type Layer,
  layerOf,
  reasonOfSelection,
  type Selection,
} from "./layers.ts";
import { Rewriter, type WeightOptions, weightScheme } from "./rewriter.ts";
import { nothing, prepare, type Quantised } from "./static.ts";
import { type FloatTensor, quantiseWeights } from "./weights.ts";

export interface DynamicOptions extends Selection, WeightOptions {}

/**
 * Changes the model. The same model and options give the same result.
 * @throws not_quantisable
 */
export function quantiseDynamic(model: Model, options: DynamicOptions = {}): Quantised {
  prepare(model, options);
  const table = valuesOf(model);
  const rewriter = new Rewriter(model);
  const layers: Quantised["layers"][number][] = [];
  const embeddings: Embedding[] = [];
  const kept: Kept[] = [];
  const activations = new Map<Value, Activation>();
  for (const node of model.graph.node) {
    const [layer, embedding] = [layerOf(table, node), embeddingOf(table, node)];
    if (layer === undefined && embedding === undefined) continue;
    const reason = reasonOfSelection(node, options) ?? (layer && reasonToKeep(layer));
    if (reason !== undefined) {
      kept.push({ node: node.name, op: node.opType, reason });
      continue;
    }
    layers.push({ node: node.name, op: node.opType });
    if (embedding !== undefined) embeddings.push(embedding);
    else if (layer !== undefined && "node" in layer)
      rewriteLayer(rewriter, layer, activationOf(layer.x), options);
  }
  if (layers.length === 0)
    throw toolchainErrors.notQuantisable(
      nothing(kept),
      "Dynamic quantisation is for MatMul and Gemm with constant weights, and for Gather of a table; convolutions take static quantisation.",
    );
  for (const embedding of embeddings) rewriter.embedding(embedding, options);
  rewriter.apply();
  return { layers, kept, activations: activations.size };

  /** Made once, whoever reads it. */
  function activationOf(x: Value): Activation {
    const known = activations.get(x);
    if (known !== undefined) return known;
    const made = {
      values: rewriter.name(`${x.name}_quantised`),
      scale: rewriter.name(`${x.name}_scale`),
      zeroPoint: rewriter.name(`${x.name}_zero_point`),
    };
    rewriter.insertAfterOrigin(
      x,
      rewriter.node({
        op: "DynamicQuantizeLinear",
        inputs: [x.name],
        outputs: [made.values, made.scale, made.zeroPoint],
      }),
    );
    activations.set(x, made);
    return made;
  }
}

/** Names of what DynamicQuantizeLinear makes. */
interface Activation {
  readonly values: string;
  readonly scale: string;
  readonly zeroPoint: string;
}

function reasonToKeep(layer: Layer | { readonly reason: string }): string | undefined {
  if ("reason" in layer) return layer.reason;
  if (layer.op === "Conv")
    return "integer convolutions are slower, unless their scales are found beforehand (static)";
  return layer.op === "Gemm" && attributeOf(layer.node, "transA")?.i
    ? "its activations are transposed"
    : undefined;
}

/** The form that ONNX Runtime fuses to DynamicQuantizeMatMul or MatMulIntegerToFloat. */
function rewriteLayer(
  rewriter: Rewriter,
  { node, op, y, weights, bias }: Layer,
  x: Activation,
  options: DynamicOptions,
): void {
  const { perChannel = true } = options;
  const scheme = weightScheme(options, op);
  const matrix = weights.axis === 1 ? weights : { ...transposed(weights), value: weights.value };
  const w = rewriter.weights(
    weights.value.name,
    matrix.dims,
    scheme.type,
    quantiseWeights(matrix, perChannel ? 1 : undefined, scheme),
    perChannel,
  );
  const named = (suffix: string) => rewriter.name(`${y.name}_${suffix}`);
  const [sums, floats, scales, product] = [
    named("sums"),
    named("sums_fp32"),
    named("scales"),
    bias === undefined ? y.name : named("product"),
  ];
  rewriter.insertAfter(
    node,
    rewriter.node({
      op: "MatMulInteger",
      inputs: [x.values, w.values, x.zeroPoint, w.zeroPoint],
      outputs: [sums],
    }),
    rewriter.node({
      op: "Cast",
      inputs: [sums],
      outputs: [floats],
      attributes: [intAttribute("to", codeOf("float"))],
    }),
    rewriter.node({ op: "Mul", inputs: [x.scale, w.scale], outputs: [scales] }),
    rewriter.node({ op: "Mul", inputs: [floats, scales], outputs: [product] }),
    ...(bias === undefined
      ? []
      : [
          rewriter.node({
            op: "Add",
            inputs: [product, rewriter.constant(`${y.name}_bias`, "float", [bias.length], bias)],
            outputs: [y.name],
          }),
        ]),
  );
  rewriter.remove(node);
}

function transposed({ values, dims: [rows = 0, columns = 0] }: FloatTensor): FloatTensor {
  const turned = new Float32Array(values.length);
  for (let row = 0; row < rows; row++)
    for (let column = 0; column < columns; column++)
      turned[column * rows + row] = values[row * columns + column] ?? 0;
  return { values: turned, dims: [columns, rows] };
}
