// Ranks layers by the error that their quantization causes, and selects those that remain in FP32.

import { EdgeTierError } from "../../core/errors.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { type Model, parseModel, serializeModel } from "../onnx/model-file.ts";
import { buildValueTable } from "../onnx/value-table.ts";
import type { InputSamples } from "./capture-activations.ts";
import { type OutputDeviation, ReferenceOutputs } from "./output-deviation.ts";
import {
  findEmbeddingTable,
  findQuantizableLayer,
  type LayerSelection,
} from "./quantizable-layers.ts";
import { prepareGraph } from "./static-quantization.ts";

/** Quantizes the selected layers of an FP32 model in place. */
export type QuantizeSelected = (model: Model, selection: LayerSelection) => void;

export interface LayerSensitivity {
  readonly node: string;
  readonly op: string;
  /** Lowest value over the outputs, with only this layer quantized; null if no output changes. */
  readonly sqnrDb: number | null;
  /** Lowest value over the outputs that have rows of several values. */
  readonly argmaxAgreement: number | null;
}

/**
 * Quantizes each layer alone and compares the outputs with those in FP32, on the samples.
 * @param model receives unique node names
 * @param onLayer receives the number of completed layers
 * @returns the layers, the most sensitive first
 * @throws not_quantizable, session_failed
 */
export async function rankLayers(
  runtime: Runtime,
  model: Model,
  quantize: QuantizeSelected,
  samples: InputSamples,
  selection: LayerSelection = {},
  onLayer: (completed: number, total: number) => void = () => {},
): Promise<LayerSensitivity[]> {
  prepareGraph(model);
  const bytes = serializeModel(model);
  const nodes = quantizableNodes(model, selection);
  const reference = await ReferenceOutputs.record(runtime, bytes, samples);
  const ranking: LayerSensitivity[] = [];
  for (const [position, { name, op }] of nodes.entries()) {
    const quantized = parseModel(bytes);
    if (canQuantize(quantize, quantized, name))
      ranking.push({
        node: name,
        op,
        ...summarizeWorst(await reference.compare(runtime, serializeModel(quantized))),
      });
    onLayer(position + 1, nodes.length);
  }
  return ranking.toSorted(
    (first, second) =>
      (first.sqnrDb ?? Number.POSITIVE_INFINITY) - (second.sqnrDb ?? Number.POSITIVE_INFINITY),
  );
}

/** Tells whether the quantizer supports the layer. Unsupported layers are not ranked. */
function canQuantize(quantize: QuantizeSelected, model: Model, name: string): boolean {
  try {
    quantize(model, { only: [name] });
    return true;
  } catch (error) {
    if (error instanceof EdgeTierError && error.code === "not_quantizable") return false;
    throw error;
  }
}

function quantizableNodes(
  model: Model,
  { keep = [] }: LayerSelection,
): { readonly name: string; readonly op: string }[] {
  const table = buildValueTable(model);
  return model.graph.node
    .filter((node) => {
      const layer = findQuantizableLayer(table, node);
      return (
        !keep.includes(node.name) &&
        !keep.includes(node.opType) &&
        ((layer !== undefined && "node" in layer) || findEmbeddingTable(table, node) !== undefined)
      );
    })
    .map(({ name, opType }) => ({ name, op: opType }));
}

function summarizeWorst(
  differences: readonly OutputDeviation[],
): Pick<LayerSensitivity, "sqnrDb" | "argmaxAgreement"> {
  const least = (values: readonly (number | null)[]) =>
    values.reduce(
      (least, candidate) =>
        least === null || (candidate !== null && candidate < least) ? candidate : least,
      null,
    );
  return {
    sqnrDb: least(differences.map(({ sqnrDb }) => sqnrDb)),
    argmaxAgreement: least(differences.map(({ argmaxAgreement }) => argmaxAgreement)),
  };
}

/** Returns the most sensitive layers of a ranking. */
export const mostSensitiveLayers = (
  ranking: readonly LayerSensitivity[],
  count: number,
): string[] => ranking.slice(0, count).map(({ node }) => node);

export interface Fp32LayerSearch<Evaluation> {
  readonly ranking: readonly LayerSensitivity[];
  /** Maximum number of layers that remain in FP32. */
  readonly maxFp32Layers: number;
  /**
   * Builds the graph with these layers in FP32 and evaluates it, for example by its accuracy in the
   * target runtime.
   */
  readonly evaluate: (keep: readonly string[]) => Promise<Evaluation>;
  readonly isAcceptable: (evaluation: Evaluation) => boolean;
  readonly onEvaluation?: (keep: readonly string[], evaluation: Evaluation) => void;
}

export interface Fp32LayerSearchResult<Evaluation> {
  readonly keep: readonly string[];
  readonly evaluation: Evaluation;
  /**
   * False if no attempt is acceptable; the result is then the attempt with the most FP32 layers.
   */
  readonly isAcceptable: boolean;
  /** Number of FP32 layers and evaluation of each attempt. */
  readonly attempts: readonly { readonly fp32Layers: number; readonly evaluation: Evaluation }[];
}

/**
 * Keeps one more layer in FP32 per attempt, the most sensitive first, until the evaluation is
 * acceptable.
 */
export async function searchFp32Layers<Evaluation>({
  ranking,
  maxFp32Layers,
  evaluate,
  isAcceptable,
  onEvaluation = () => {},
}: Fp32LayerSearch<Evaluation>): Promise<Fp32LayerSearchResult<Evaluation>> {
  const attempts: { fp32Layers: number; evaluation: Evaluation }[] = [];
  for (let fp32Layers = 0; ; fp32Layers++) {
    const keep = mostSensitiveLayers(ranking, fp32Layers);
    const evaluation = await evaluate(keep);
    attempts.push({ fp32Layers, evaluation });
    onEvaluation(keep, evaluation);
    const isDone = isAcceptable(evaluation);
    if (isDone || fp32Layers >= Math.min(maxFp32Layers, ranking.length))
      return { keep, evaluation, isAcceptable: isDone, attempts };
  }
}
