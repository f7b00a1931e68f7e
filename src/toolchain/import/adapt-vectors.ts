// Finds which output of a graph gives a text's vector, and how.

import type { Model } from "../onnx/model-file.ts";
import { ranksOf } from "../onnx/ranks.ts";
import { valuesOf } from "../onnx/values.ts";
import type { Problem } from "./problem.ts";

export const POOLINGS = ["graph", "mean", "cls"] as const;
export type PoolingKind = (typeof POOLINGS)[number];

export interface VectorChoice {
  /** The output, where several might be it. */
  readonly output?: string | undefined;
  /** How tokens' vectors become one; only its maker knows, unless the graph does it. */
  readonly pooling?: PoolingKind | undefined;
}

export interface VectorOutput {
  readonly output: string;
  readonly pooling: PoolingKind;
}

/** As exporters call the output that is pooled. */
export const POOLED = ["sentence_embedding", "embedding", "embeddings"];

/** Changes nothing. @returns the output, or why it cannot be told */
export function findVectors(
  model: Model,
  { output: wanted, pooling }: VectorChoice,
): VectorOutput | Problem {
  const table = valuesOf(model);
  const rankOf = ranksOf(model, table);
  const outputs = table.outputsOfGraph(model.graph);
  const listed = outputs.map(({ name }) => name).join(", ");
  const ranks = pooling === undefined ? [2, 3] : [pooling === "graph" ? 2 : 3];
  const candidates = outputs.filter(
    (value) => value.type === "float" && ranks.includes(rankOf(value) ?? 0),
  );
  const named = candidates.find(({ name }) =>
    wanted === undefined ? POOLED.includes(name) : name === wanted,
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
