// Toy model: two tiers over test/fixtures/toy.onnx. "yes" and "no" are confident answers, "maybe" is an uncertain yes, and any
// other word is out of scope. It imports nothing from Node, because suites in workerd use it too.
import {
  aliasedVersion,
  type TextClassificationManifest,
  type TextClassificationTier,
} from "../../src/registry/manifest.ts";
import type { ModelStore } from "../../src/registry/model-store.ts";

const features = {
  kind: "hashed-ngrams",
  buckets: 64,
  wordNgrams: [1],
  charNgrams: [],
  maxFeatures: 16,
};

/** Publishes a version and sets the alias `stable` to it. */
export async function publishToyModel(
  store: ModelStore,
  graph: Uint8Array,
  changes: Partial<TextClassificationManifest> = {},
): Promise<TextClassificationManifest> {
  const put = async (bytes: Uint8Array) => (await store.writeArtifact(bytes)).ref;
  const json = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
  const tier: Omit<TextClassificationTier, "id" | "place" | "exit"> = {
    precision: "fp32",
    graph: await put(graph),
    preprocessor: { kind: "hashed-ngrams", artifact: await put(json(features)) },
    inputs: [{ name: "ids", datatype: "INT32", shape: [-1, -1] }],
    outputs: [{ name: "logits", datatype: "FP32", shape: [-1, 2] }],
    calibration: {
      temperature: 1,
      outOfScope: { label: "oos", score: { kind: "maxLogit" }, threshold: 0.2, scale: 10 },
    },
    figures: {},
  };
  const manifest: TextClassificationManifest = {
    schemaVersion: 1,
    model: "toy",
    version: 1,
    task: "text-classification",
    description: "",
    labels: await put(json(["yes", "no"])),
    input: { maxBytes: 64 },
    deadlineMs: 1000,
    tiers: [
      { ...tier, id: "edge", place: "edge", exit: { confidence: 0.9 } },
      { ...tier, id: "region", place: "region", exit: null },
    ],
    figures: {},
    provenance: {},
    ...changes,
  };
  await store.writeManifest(manifest);
  const before = await store.readAliases(manifest.model);
  const stable = before?.aliases["stable"];
  if (stable === undefined || aliasedVersion(stable) !== manifest.version) {
    await store.writeAliases(
      manifest.model,
      { ...before?.aliases, stable: manifest.version },
      before?.etag,
    );
  }
  return manifest;
}
