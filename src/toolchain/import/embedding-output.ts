// Finds which output of a graph gives a text's vector, and how.

import type { Model } from "../onnx/model-file.ts";
import { inferRanks } from "../onnx/rank-inference.ts";
import { buildValueTable } from "../onnx/value-table.ts";
import type { ImportProblem } from "./import-problem.ts";

export const POOLINGS = ["graph", "mean", "cls"] as const;
export type PoolingKind = (typeof POOLINGS)[number];

export interface EmbeddingOutputOptions {
  /** The output, where several might be it. */
  readonly output?: string | undefined;
  /** How tokens' vectors become one; only its maker knows, unless the graph does it. */
  readonly pooling?: PoolingKind | undefined;
}

export interface EmbeddingOutput {
  readonly output: string;
  readonly pooling: PoolingKind;
}

/** As exporters call the output that is pooled. */
export const POOLED_OUTPUT_NAMES = ["sentence_embedding", "embedding", "embeddings"];

/** Changes nothing. @returns the output, or why it cannot be told */
export function findEmbeddingOutput(
  model: Model,
  { output: wanted, pooling }: EmbeddingOutputOptions,
): EmbeddingOutput | ImportProblem {
  const table = buildValueTable(model);
  const rankOf = inferRanks(model, table);
  const outputs = table.outputsOfGraph(model.graph);
  const listed = outputs.map(({ name }) => name).join(", ");
  const ranks = pooling === undefined ? [2, 3] : [pooling === "graph" ? 2 : 3];
  const candidates = outputs.filter(
    (value) => value.type === "float" && ranks.includes(rankOf(value) ?? 0),
  );
  const named = candidates.find(({ name }) =>
    wanted === undefined ? POOLED_OUTPUT_NAMES.includes(name) : name === wanted,
  );
  const chosen =
    named ?? (candidates.length === 1 && wanted === undefined ? candidates[0] : undefined);
  if (chosen === undefined) {
    const what =
      pooling === undefined
        ? "FP32 [batch, dimensions] or [batch, tokens, dimensions]"
        : `what pooling ${pooling} needs, FP32 with ${ranks[0]} dimensions`;
    if (wanted !== undefined)
      return {
        problem: `${JSON.stringify(wanted)} is no output of it that is ${what}; it has ${listed}`,
        remedy: "Name another with --output, or another --pooling.",
      };
    return {
      problem: `${candidates.length === 0 ? "none" : "several"} of its outputs ${candidates.length === 0 ? "is" : "are"} ${what}; it has ${listed}`,
      remedy: "Say which one gives the vector with --output, and how with --pooling.",
    };
  }
  if (rankOf(chosen) === 2) return { output: chosen.name, pooling: "graph" };
  if (pooling !== undefined) return { output: chosen.name, pooling };
  return {
    problem: `its output ${JSON.stringify(chosen.name)} has a vector for each token, and it is not known how they become one`,
    remedy:
      "Say --pooling mean or --pooling cls; for a model of sentence-transformers its 1_Pooling/config.json tells.",
  };
}
