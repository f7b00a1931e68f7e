// Which layers quantisation hurts most, and the choice of those that stay in FP32 for it.

import { EdgeTierError } from "../../core/errors.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { type Model, readModel, writeModel } from "../onnx/model-file.ts";
import { valuesOf } from "../onnx/values.ts";
import { type OutputDifference, Reference } from "./differences.ts";
import { embeddingOf, layerOf, type Selection } from "./layers.ts";
import type { Samples } from "./observe.ts";
import { prepare } from "./static.ts";

/** What the quantiser makes of a model in FP32, with a selection of layers. It changes the model that it is given. */
export type Quantiser = (model: Model, selection: Selection) => void;

export interface Sensitivity {
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
 * @throws not_quantisable, session_failed
 */
export async function rankLayers(
  runtime: Runtime,
  model: Model,
  quantiser: Quantiser,
  samples: Samples,
  selection: Selection = {},
  onLayer: (done: number, of: number) => void = () => {},
): Promise<Sensitivity[]> {
  prepare(model);
  const bytes = writeModel(model);
  const nodes = quantisableNodes(model, selection);
  const reference = await Reference.of(runtime, bytes, samples);
  const ranking: Sensitivity[] = [];
  for (const [position, { name, op }] of nodes.entries()) {
    const quantised = readModel(bytes);
    if (canQuantise(quantiser, quantised, name))
      ranking.push({
        node: name,
        op,
        ...worstOf(await reference.compare(runtime, writeModel(quantised))),
      });
    onLayer(position + 1, nodes.length);
  }
  return ranking.toSorted(
    (one, other) =>
      (one.sqnrDb ?? Number.POSITIVE_INFINITY) - (other.sqnrDb ?? Number.POSITIVE_INFINITY),
  );
}

/** Not every quantiser takes every layer: what it does not take has no rank. */
function canQuantise(quantiser: Quantiser, model: Model, name: string): boolean {
  try {
    quantiser(model, { only: [name] });
    return true;
  } catch (error) {
    if (error instanceof EdgeTierError && error.code === "not_quantisable") return false;
    throw error;
  }
}

function quantisableNodes(
  model: Model,
  { keep = [] }: Selection,
): { readonly name: string; readonly op: string }[] {
  const table = valuesOf(model);
  return model.graph.node
    .filter((node) => {
      const layer = layerOf(table, node);
      return (
        !keep.includes(node.name) &&
        !keep.includes(node.opType) &&
        ((layer !== undefined && "node" in layer) || embeddingOf(table, node) !== undefined)
      );
    })
    .map(({ name, opType }) => ({ name, op: opType }));
}

function worstOf(
  differences: readonly OutputDifference[],
): Pick<Sensitivity, "sqnrDb" | "argmaxAgreement"> {
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
export const keepWorst = (ranking: readonly Sensitivity[], count: number): string[] =>
  ranking.slice(0, count).map(({ node }) => node);

export interface Search<Verdict> {
  readonly ranking: readonly Sensitivity[];
  /** At most so many layers stay in FP32. */
  readonly maxKept: number;
  /** Makes a graph with these layers in FP32, and judges it: by its accuracy, in the runtime that it is for. */
  readonly judge: (keep: readonly string[]) => Promise<Verdict>;
  readonly holds: (verdict: Verdict) => boolean;
  readonly onVerdict?: (keep: readonly string[], verdict: Verdict) => void;
}

export interface Found<Verdict> {
  readonly keep: readonly string[];
  readonly verdict: Verdict;
  /** False where the bound holds with no number of layers that was tried: then these are the most. */
  readonly holds: boolean;
  /** How many layers were kept, and what came of it. */
  readonly tried: readonly { readonly kept: number; readonly verdict: Verdict }[];
}

/** Keeps one layer after the other in FP32, the worst first, until the bound holds. */
export async function keepUntil<Verdict>({
  ranking,
  maxKept,
  judge,
  holds,
  onVerdict = () => {},
}: Search<Verdict>): Promise<Found<Verdict>> {
  const tried: { kept: number; verdict: Verdict }[] = [];
  for (let kept = 0; ; kept++) {
    const keep = keepWorst(ranking, kept);
    const verdict = await judge(keep);
    tried.push({ kept, verdict });
    onVerdict(keep, verdict);
    const done = holds(verdict);
    if (done || kept >= Math.min(maxKept, ranking.length))
      return { keep, verdict, holds: done, tried };
  }
}
