// The small models beside `intent`: tensors in and out, texts, and one that takes its time.
import { readFile } from "node:fs/promises";
import type { ModelStore } from "../../../src/registry/model-store.ts";
import {
  identityAll,
  int8MatMul,
  publishTensorModel,
  stringIdentity,
} from "../../support/tensor-model.ts";
import { publishToy } from "../../support/toy-model.ts";
import { publishVectors } from "../../support/vector-model.ts";
import { publish as publishMood } from "../../region/world.ts";

export const fixture = async (name: string) =>
  new Uint8Array(await readFile(new URL(`../../fixtures/${name}.onnx`, import.meta.url)));

/** Runs of `mood`'s tier `slow` take some 100 ms. */
export async function publishSmallModels(store: ModelStore): Promise<void> {
  const deadlines = { deadlineMs: 10_000 };
  const far = { ...deadlines, places: ["region"] } as const;
  const matmul = int8MatMul(await fixture("int8-matmul"));
  await publishToy(store, await fixture("toy"), deadlines);
  await publishVectors(store, deadlines);
  await publishTensorModel(
    store,
    "identity",
    identityAll(await fixture("identity-all")),
    deadlines,
  );
  await publishTensorModel(store, "matmul", matmul, { ...deadlines, labels: ["left", "right"] });
  await publishTensorModel(store, "far", matmul, far);
  await publishTensorModel(store, "words", stringIdentity(await fixture("string-identity")), far);
  await publishMood(store, {
    tiers: { slow: "slow-bag-of-tokens.onnx", heavy: "bag-of-tokens.onnx" },
  });
  await store.writeAliases("mood", { stable: 1 }, undefined);
}
