// Tests region tiers that resume an edge tier, in projects and manifests: valid and invalid ones, and their files.
import { expect, it } from "vitest";
import { createMemoryObjectStore } from "../../src/registry/drivers/memory.ts";
import {
  listArtifacts,
  type ClassificationManifest,
  manifestSchema,
  modelProjectSchema,
} from "../../src/registry/manifest.ts";
import { createModelStore } from "../../src/registry/object-model-store.ts";
import { publishStagedModel, stagedProject } from "../support/staged-model.ts";

type Tier = Pick<ClassificationManifest["tiers"][number], "place">;

async function publishResumingModel(): Promise<ClassificationManifest> {
  const store = createModelStore(createMemoryObjectStore());
  await publishStagedModel(store);
  const manifest = await store.readManifest("staged", 1);
  if (manifest?.task !== "image-classification") throw new TypeError("the manifest is missing");
  return manifest;
}

it("is published with its graph among the artifacts", async () => {
  const manifest = await publishResumingModel();
  const [edge, region] = manifest.tiers;
  expect(region?.resumes).toMatchObject({
    tier: "edge",
    inputs: [{ name: "activation", datatype: "UINT8", shape: [-1, 3, 1, 1] }],
  });
  const digests = listArtifacts(manifest).map(({ sha256 }) => sha256);
  expect(digests).toContain(region?.resumes?.graph.sha256);
  expect(
    new Set([edge?.graph.sha256, region?.graph.sha256, region?.resumes?.graph.sha256]).size,
  ).toBe(3);
});

it("is optional, so that older manifests stay valid", async () => {
  const manifest = await publishResumingModel();
  const before = {
    ...manifest,
    tiers: manifest.tiers.map(({ resumes: _resumes, ...tier }) => tier),
  };
  expect(manifestSchema.parse(before)).toEqual(before);
});

const activation = { name: "activation", datatype: "UINT8", shape: [-1, 3, 1, 1] };
it.each<[description: string, edit: (tier: Tier) => object, problem: RegExp]>([
  [
    "an edge tier that resumes",
    (tier) =>
      tier.place === "edge"
        ? { resumes: { tier: "edge", graph: "rest.onnx", inputs: [activation] } }
        : {},
    /only a region tier/,
  ],
  [
    "an unknown tier",
    (tier) =>
      tier.place === "region"
        ? { resumes: { tier: "other", graph: "rest.onnx", inputs: [activation] } }
        : {},
    /only from an edge tier/,
  ],
  [
    "a tensor that the edge tier does not have",
    (tier) =>
      tier.place === "region"
        ? {
            resumes: {
              tier: "edge",
              graph: "rest.onnx",
              inputs: [activation, { ...activation, name: "mask" }],
            },
          }
        : {},
    /resumes with mask/,
  ],
  [
    "another type than the edge tier's",
    (tier) =>
      tier.place === "region"
        ? {
            resumes: {
              tier: "edge",
              graph: "rest.onnx",
              inputs: [{ ...activation, datatype: "INT8" }],
            },
          }
        : {},
    /resumes with activation/,
  ],
  [
    "only its own inputs",
    (tier) =>
      tier.place === "region"
        ? {
            resumes: {
              tier: "edge",
              graph: "rest.onnx",
              inputs: [{ name: "pixels", datatype: "FP32", shape: [-1, 3, 8, 8] }],
            },
          }
        : {},
    /at least one output/,
  ],
])("rejects %s", (_description, edit, problem) => {
  const { project } = stagedProject();
  const tiers = project.tiers.map((tier) => ({ ...tier, ...edit(tier) }));
  expect(
    modelProjectSchema.safeParse({ ...project, tiers }).error?.issues.map(({ message }) => message),
  ).toEqual([expect.stringMatching(problem)]);
});
