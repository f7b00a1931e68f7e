// What a manifest of an embedding model may say.
import { expect, it } from "vitest";
import { modelProjectSchema } from "../../src/registry/manifest.ts";
import { embeddingProject } from "../support/embedding-model.ts";

const { project } = embeddingProject({ places: ["edge", "region"] });
const [edge, region] = project.tiers;
const parseProject = (changes: object) => modelProjectSchema.safeParse({ ...project, ...changes });

it("has one tier at the edge, one in the region, or both", () => {
  for (const tiers of [[edge], [region], [edge, region]])
    expect(parseProject({ tiers }).success).toBe(true);
});

const invalidManifests: [what: string, changes: object, message: RegExp][] = [
  [
    "two tiers at one place",
    { tiers: [edge, { ...edge, id: "other" }] },
    /at most one edge tier and one region tier/,
  ],
  [
    "tiers that cut texts differently",
    {
      tiers: [
        edge,
        {
          ...region,
          preprocessor: { kind: "wordpiece", artifact: "tokenizer.json", maxTokens: 9 },
        },
      ],
    },
    /as many tokens/,
  ],
  ["the region first", { tiers: [region, edge] }, /edge tiers must come before region tiers/],
  [
    "an output that is not there",
    { tiers: [{ ...edge, output: "vectors" }] },
    /its output vectors must be FP32 with 3 dimensions/,
  ],
  [
    "an output that is pooled already",
    { tiers: [{ ...edge, output: "sums" }] },
    /with pooling mean its output sums must be FP32 with 3 dimensions/,
  ],
  [
    "an output that is yet to be pooled",
    { tiers: [{ ...edge, pooling: "graph" }] },
    /with pooling graph its output states must be FP32 with 2 dimensions/,
  ],
  ["an exit", { tiers: [{ ...edge, exit: null }] }, /exit/],
  ["labels", { labels: "labels.json" }, /labels|expected undefined/],
  [
    "another preprocessor",
    { tiers: [{ ...edge, preprocessor: { kind: "hashed-ngrams", artifact: "a.json" } }] },
    /wordpiece/,
  ],
];
it.each(invalidManifests)("has no %s", (_what, changes, message) => {
  expect(parseProject(changes).error?.message).toMatch(message);
});
