// Which layers quantisation hurts most, and the choice of those that stay in FP32 for it.

import { EdgeTierError } from "../../core/errors.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { type Model, parseModel, serializeModel } from "../onnx/model-file.ts";
import { buildValueTable } from "../onnx/value-table.ts";
import { type OutputDeviation, ReferenceOutputs } from "./output-deviation.ts";
import {
  findEmbeddingTable,
  findQuantizableLayer,
  type LayerSelection,
} from "./quantizable-layers.ts";
import type { InputSamples } from "./capture-activations.ts";
import { prepareGraph } from "./static-quantization.ts";

/** What the quantiser makes of a model in FP32, with a selection of layers. It changes the model that it is given. */
export type QuantizeSelected = (model: Model, selection: LayerSelection) => void;

export interface LayerSensitivity {
  readonly node: string;
  readonly op: string;
  /** Of the output that it hurts most, with only this layer quantised; null where nothing changes. */
  readonly sqnrDb: number | null;
  /** The least of any output that has rows of several numbers. */
  readonly argmaxAgreement: number | null;
}

/**
 * Quantises each layer alone and compares the outputs with those in FP32, on the samples.
 * @param model gets names for its nodes, where it has none
 * @param onLayer is told how many layers are done
 * @returns the layers that hurt most first
 * @throws not_quantizable, session_failed
 */
export async function rankLayers(
  runtime: Runtime,
  model: Model,
  quantiser: QuantizeSelected,
  samples: InputSamples,
  selection: LayerSelection = {},
  onLayer: (done: number, of: number) => void = () => {},
): Promise<LayerSensitivity[]> {
  prepareGraph(model);
  const bytes = serializeModel(model);
  const nodes = quantizableNodes(model, selection);
  const reference = await ReferenceOutputs.record(runtime, bytes, samples);
  const ranking: LayerSensitivity[] = [];
  for (const [position, { name, op }] of nodes.entries()) {
    const quantised = parseModel(bytes);
    if (canQuantize(quantiser, quantised, name))
      ranking.push({
        node: name,
        op,
        ...worstOf(await reference.compare(runtime, serializeModel(quantised))),
      });
    onLayer(position + 1, nodes.length);
  }
  return ranking.toSorted(
    (one, other) =>
      (one.sqnrDb ?? Number.POSITIVE_INFINITY) - (other.sqnrDb ?? Number.POSITIVE_INFINITY),
  );
}

/** Not every quantiser takes every layer: what it does not take has no rank. */
function canQuantize(quantiser: QuantizeSelected, model: Model, name: string): boolean {
  try {
    quantiser(model, { only: [name] });
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

function worstOf(
  differences: readonly OutputDeviation[],
): Pick<LayerSensitivity, "sqnrDb" | "argmaxAgreement"> {
  const least = (values: readonly (number | null)[]) =>
    values.reduce(
      (least, one) => (least === null || (one !== null && one < least) ? one : least),
      null,
    );
  return {
    sqnrDb: least(differences.map(({ sqnrDb }) => sqnrDb)),
    argmaxAgreement: least(differences.map(({ argmaxAgreement }) => argmaxAgreement)),
  };
}

/** The layers of a ranking that hurt most. */
export const mostSensitiveLayers = (
  ranking: readonly LayerSensitivity[],
  count: number,
): string[] => ranking.slice(0, count).map(({ node }) => node);

export interface Fp32LayerSearch<Verdict> {
  readonly ranking: readonly LayerSensitivity[];
  /** At most so many layers stay in FP32. */
  readonly maxFp32Layers: number;
  /** Makes a graph with these layers in FP32, and judges it: by its accuracy, in the runtime that it is for. */
  readonly evaluate: (keep: readonly string[]) => Promise<Verdict>;
  readonly isAcceptable: (verdict: Verdict) => boolean;
  readonly onEvaluation?: (keep: readonly string[], verdict: Verdict) => void;
}

export interface Fp32LayerSearchResult<Verdict> {
  readonly keep: readonly string[];
  readonly evaluation: Verdict;
  /** False where the bound holds with no number of layers that was tried: then these are the most. */
  readonly isAcceptable: boolean;
  /** How many layers were kept, and what came of it. */
  readonly attempts: readonly { readonly fp32Layers: number; readonly evaluation: Verdict }[];
}

/** Keeps one layer after the other in FP32, the worst first, until the bound holds. */
export async function searchFp32Layers<Verdict>({
  ranking,
  maxFp32Layers: maxKept,
  evaluate: judge,
  isAcceptable: holds,
  onEvaluation: onVerdict = () => {},
}: Fp32LayerSearch<Verdict>): Promise<Fp32LayerSearchResult<Verdict>> {
  const tried: { fp32Layers: number; evaluation: Verdict }[] = [];
  for (let kept = 0; ; kept++) {
    const keep = mostSensitiveLayers(ranking, kept);
    const verdict = await judge(keep);
    tried.push({ fp32Layers: kept, evaluation: verdict });
    onVerdict(keep, verdict);
    const done = holds(verdict);
    if (done || kept >= Math.min(maxKept, ranking.length))
      return { keep, evaluation: verdict, isAcceptable: done, attempts: tried };
  }
}
