// Small models in addition to `intent`: one of tensors, one of texts, and a slow one.
import { readFile } from "node:fs/promises";
import type { ModelStore } from "../../../src/registry/model-store.ts";
import { publishMoodModel as publishMood } from "../../region/region-fixture.ts";
import { publishEmbeddingModel } from "../../support/embedding-model.ts";
import {
  identityGraph,
  int8MatMulGraph,
  publishTensorModel,
  stringIdentityGraph,
} from "../../support/tensor-model.ts";
import { publishToyModel } from "../../support/toy-model.ts";

export const readOnnxFixture = async (name: string) =>
  new Uint8Array(await readFile(new URL(`../../fixtures/${name}.onnx`, import.meta.url)));

/** Runs of `mood`'s tier `slow` take some 100 ms. */
export async function publishSmallModels(store: ModelStore): Promise<void> {
  const deadlines = { deadlineMs: 10_000 };
  const far = { ...deadlines, places: ["region"] } as const;
  const matmul = int8MatMulGraph(await readOnnxFixture("int8-matmul"));
  await publishToyModel(store, await readOnnxFixture("toy"), deadlines);
  await publishEmbeddingModel(store, deadlines);
  await publishTensorModel(
    store,
    "identity",
    identityGraph(await readOnnxFixture("identity-all")),
    deadlines,
  );
  await publishTensorModel(store, "matmul", matmul, { ...deadlines, labels: ["left", "right"] });
  await publishTensorModel(store, "far", matmul, far);
  await publishTensorModel(
    store,
    "words",
    stringIdentityGraph(await readOnnxFixture("string-identity")),
    far,
  );
  await publishMood(store, {
    tiers: { slow: "slow-bag-of-tokens.onnx", heavy: "bag-of-tokens.onnx" },
  });
  await store.writeAliases("mood", { stable: 1 }, undefined);
}
