// Finds the output of a graph that contains the text embedding, and its pooling.

import type { Model } from "../onnx/model-file.ts";
import { inferRanks } from "../onnx/rank-inference.ts";
import { buildValueTable } from "../onnx/value-table.ts";
import type { ImportProblem } from "./import-problem.ts";

export const POOLINGS = ["graph", "mean", "cls"] as const;
export type PoolingKind = (typeof POOLINGS)[number];

export interface EmbeddingOutputOptions {
  /** Name of the output, if several are candidates. */
  readonly output?: string | undefined;
  /** How token vectors are combined. Only the author knows, unless the graph pools them itself. */
  readonly pooling?: PoolingKind | undefined;
}

export interface EmbeddingOutput {
  readonly output: string;
  readonly pooling: PoolingKind;
}

/** Names that exporters use for the pooled output. */
export const POOLED_OUTPUT_NAMES = ["sentence_embedding", "embedding", "embeddings"];

/** Does not change the model. @returns the output, or the reason for the ambiguity */
export function findEmbeddingOutput(
  model: Model,
  { output: outputName, pooling }: EmbeddingOutputOptions,
): EmbeddingOutput | ImportProblem {
  const table = buildValueTable(model);
  const rankOf = inferRanks(model, table);
  const outputs = table.outputsOfGraph(model.graph);
  const outputNames = outputs.map(({ name }) => name).join(", ");
  const ranks = pooling === undefined ? [2, 3] : [pooling === "graph" ? 2 : 3];
  const candidates = outputs.filter(
    (value) => value.type === "float" && ranks.includes(rankOf(value) ?? 0),
  );
  const exactMatch = candidates.find(({ name }) =>
    outputName === undefined ? POOLED_OUTPUT_NAMES.includes(name) : name === outputName,
  );
  const chosen =
    exactMatch ?? (candidates.length === 1 && outputName === undefined ? candidates[0] : undefined);
  if (chosen === undefined) {
    const expected =
      pooling === undefined
        ? "FP32 [batch, dimensions] or [batch, tokens, dimensions]"
        : `FP32 with ${ranks[0]} dimensions, as pooling ${pooling} requires`;
    if (outputName !== undefined)
      return {
        problem: `${JSON.stringify(outputName)} is not one of its outputs that are ${expected}; it has ${outputNames}`,
        remedy: "Give another output with --output, or another --pooling.",
      };
    return {
      problem: `${candidates.length === 0 ? "none" : "several"} of its outputs ${candidates.length === 0 ? "is" : "are"} ${expected}; it has ${outputNames}`,
      remedy: "Give the output with --output, and its pooling with --pooling.",
    };
  }
  if (rankOf(chosen) === 2) return { output: chosen.name, pooling: "graph" };
  if (pooling !== undefined) return { output: chosen.name, pooling };
  return {
    problem: `its output ${JSON.stringify(chosen.name)} has one vector per token, and the pooling is unknown`,
    remedy:
      "Give --pooling mean or --pooling cls. A sentence-transformers model documents it in 1_Pooling/config.json.",
  };
}
