// Quantizes dynamically: weights are stored as integers, and activations are quantized at run time
// with the scale of their own range. No samples are needed, but a result depends on the rest of its
// batch. Convolutions stay in FP32, because ONNX Runtime's ConvInteger is slower.

import { toolchainErrors } from "../errors.ts";
import type { Model } from "../onnx/model-file.ts";
import { findAttribute, makeIntAttribute } from "../onnx/nodes.ts";
import { toDataType } from "../onnx/tensor-data.ts";
import { type Value, buildValueTable } from "../onnx/value-table.ts";
import { GraphRewriter, type WeightOptions, weightScheme } from "./graph-rewriter.ts";
import {
  type EmbeddingTable,
  findEmbeddingTable,
  type Fp32Layer,
  type QuantizableLayer,
  findQuantizableLayer,
  findExclusionReason,
  type LayerSelection,
} from "./quantizable-layers.ts";
import { type FloatTensor, quantizeWeights } from "./quantize-weights.ts";
import { noLayersReason, prepareGraph, type QuantizationReport } from "./static-quantization.ts";

export interface DynamicOptions extends LayerSelection, WeightOptions {}

/**
 * Changes the model. The result is deterministic for a model and its options.
 * @throws not_quantizable
 */
export function quantizeDynamic(model: Model, options: DynamicOptions = {}): QuantizationReport {
  prepareGraph(model, options);
  const table = buildValueTable(model);
  const rewriter = new GraphRewriter(model);
  const layers: QuantizationReport["layers"][number][] = [];
  const embeddings: EmbeddingTable[] = [];
  const kept: Fp32Layer[] = [];
  const activations = new Map<Value, DynamicActivation>();
  for (const node of model.graph.node) {
    const [layer, embedding] = [findQuantizableLayer(table, node), findEmbeddingTable(table, node)];
    if (layer === undefined && embedding === undefined) continue;
    const reason = findExclusionReason(node, options) ?? (layer && findUnsupportedReason(layer));
    if (reason !== undefined) {
      kept.push({ node: node.name, op: node.opType, reason });
      continue;
    }
    layers.push({ node: node.name, op: node.opType });
    if (embedding !== undefined) embeddings.push(embedding);
    else if (layer !== undefined && "node" in layer)
      quantizeLayer(rewriter, layer, quantizeActivation(layer.x), options);
  }
  if (layers.length === 0)
    throw toolchainErrors.notQuantizable(
      noLayersReason(kept),
      "Use static quantization for convolutions. Dynamic quantization supports MatMul and Gemm with constant weights, and Gather of a table.",
    );
  for (const embedding of embeddings) rewriter.quantizeEmbedding(embedding, options);
  rewriter.apply();
  return { layers, kept, activations: activations.size };

  /** Quantizes each activation once, regardless of its number of readers. */
  function quantizeActivation(x: Value): DynamicActivation {
    const existing = activations.get(x);
    if (existing !== undefined) return existing;
    const activation = {
      values: rewriter.reserveName(`${x.name}_quantized`),
      scale: rewriter.reserveName(`${x.name}_scale`),
      zeroPoint: rewriter.reserveName(`${x.name}_zero_point`),
    };
    rewriter.insertAfterOrigin(
      x,
      rewriter.createNode({
        op: "DynamicQuantizeLinear",
        inputs: [x.name],
        outputs: [activation.values, activation.scale, activation.zeroPoint],
      }),
    );
    activations.set(x, activation);
    return activation;
  }
}

/** Names of the outputs of DynamicQuantizeLinear. */
interface DynamicActivation {
  readonly values: string;
  readonly scale: string;
  readonly zeroPoint: string;
}

function findUnsupportedReason(
  layer: QuantizableLayer | { readonly reason: string },
): string | undefined {
  if ("reason" in layer) return layer.reason;
  if (layer.op === "Conv") return "integer convolutions are slower than FP32 without static scales";
  return layer.op === "Gemm" && findAttribute(layer.node, "transA")?.i
    ? "its activations are transposed"
    : undefined;
}

/** Writes the pattern that ONNX Runtime fuses to DynamicQuantizeMatMul or MatMulIntegerToFloat. */
function quantizeLayer(
  rewriter: GraphRewriter,
  { node, op, y, weights, bias }: QuantizableLayer,
  x: DynamicActivation,
  options: DynamicOptions,
): void {
  const { perChannel = true } = options;
  const scheme = weightScheme(options, op);
  const matrix = weights.axis === 1 ? weights : { ...transpose(weights), value: weights.value };
  const w = rewriter.addWeights(
    weights.value.name,
    matrix.dims,
    scheme.type,
    quantizeWeights(matrix, perChannel ? 1 : undefined, scheme),
    perChannel,
  );
  const reserveName = (suffix: string) => rewriter.reserveName(`${y.name}_${suffix}`);
  const [sums, floats, scales, product] = [
    reserveName("sums"),
    reserveName("sums_fp32"),
    reserveName("scales"),
    bias === undefined ? y.name : reserveName("product"),
  ];
  rewriter.insertAfter(
    node,
    rewriter.createNode({
      op: "MatMulInteger",
      inputs: [x.values, w.values, x.zeroPoint, w.zeroPoint],
      outputs: [sums],
    }),
    rewriter.createNode({
      op: "Cast",
      inputs: [sums],
      outputs: [floats],
      attributes: [makeIntAttribute("to", toDataType("float"))],
    }),
    rewriter.createNode({ op: "Mul", inputs: [x.scale, w.scale], outputs: [scales] }),
    rewriter.createNode({ op: "Mul", inputs: [floats, scales], outputs: [product] }),
    ...(bias === undefined
      ? []
      : [
          rewriter.createNode({
            op: "Add",
            inputs: [product, rewriter.addConstant(`${y.name}_bias`, "float", [bias.length], bias)],
            outputs: [y.name],
          }),
        ]),
  );
  rewriter.remove(node);
}

function transpose({ values, dims: [rows = 0, columns = 0] }: FloatTensor): FloatTensor {
  const transposed = new Float32Array(values.length);
  for (let row = 0; row < rows; row++)
    for (let column = 0; column < columns; column++)
      transposed[column * rows + row] = values[row * columns + column] ?? 0;
  return { values: transposed, dims: [columns, rows] };
}
