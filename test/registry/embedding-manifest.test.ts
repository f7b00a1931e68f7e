// Tests the manifest and the project schema of embedding models.
import { describe, expect, it } from "vitest";
import { createMemoryObjectStore } from "../../src/registry/drivers/memory.ts";
import { manifestSchema, modelProjectSchema } from "../../src/registry/manifest.ts";
import { createModelStore } from "../../src/registry/object-model-store.ts";
import { publishModel } from "../../src/registry/publish.ts";
import { storeLayout } from "../../src/registry/store-layout.ts";
import { embeddingProject } from "../support/embedding-model.ts";
import { createTestSigningKey } from "../support/test-signing-key.ts";

const { project } = embeddingProject({ places: ["edge", "region"] });
const [edge, region] = project.tiers;
const parseProject = (changes: object) => modelProjectSchema.safeParse({ ...project, ...changes });

it("has one tier at the edge, one in the region, or both", () => {
  for (const tiers of [[edge], [region], [edge, region]])
    expect(parseProject({ tiers }).success).toBe(true);
});

const invalidProjects: [description: string, changes: object, message: RegExp][] = [
  ["two tiers at one place", { tiers: [edge, { ...edge, id: "other" }] }, /at most one edge tier/],
  [
    "tiers with different token limits",
    {
      tiers: [
        edge,
        {
          ...region,
          preprocessor: { kind: "wordpiece", artifact: "tokenizer.json", maxTokens: 9 },
        },
      ],
    },
    /maxTokens/,
  ],
  ["the region tier first", { tiers: [region, edge] }, /before region/],
  ["an unknown output", { tiers: [{ ...edge, output: "vectors" }] }, /vectors .*\b3\b/],
  ["a pooled output with pooling mean", { tiers: [{ ...edge, output: "sums" }] }, /sums .*\b3\b/],
  [
    "an unpooled output with pooling graph",
    { tiers: [{ ...edge, pooling: "graph" }] },
    /states .*\b2\b/,
  ],
  ["an exit", { tiers: [{ ...edge, exit: null }] }, /exit/],
  ["labels", { labels: "labels.json" }, /labels|expected undefined/],
  [
    "another preprocessor",
    { tiers: [{ ...edge, preprocessor: { kind: "hashed-ngrams", artifact: "a.json" } }] },
    /wordpiece/,
  ],
];
it.each(invalidProjects)("rejects %s", (_description, changes, message) => {
  expect(parseProject(changes).error?.message).toMatch(message);
});

describe("normalize", () => {
  const { normalize: _normalize, ...fields } = project as typeof project & {
    readonly normalize: boolean;
  };

  it("defaults to true", () => {
    expect(modelProjectSchema.parse(fields)).toMatchObject({ normalize: true });
  });

  it.each([true, false])("is accepted under its former name with the value %s", (normalise) => {
    const parsed = modelProjectSchema.parse({ ...fields, normalise });
    expect(parsed).toMatchObject({ normalize: normalise });
    expect(parsed).not.toHaveProperty("normalise");
  });

  it("is rejected under both names together, and for other tasks under its former name", () => {
    expect(parseProject({ normalise: false }).success).toBe(false);
    expect(
      modelProjectSchema.safeParse({ ...fields, task: "tensor", normalise: true }).error?.message,
    ).toContain("normalise");
  });

  it("is read from stored manifests under its former name, whose bytes and signature stay valid", async () => {
    const key = await createTestSigningKey();
    const objects = createMemoryObjectStore();
    await publishModel(createModelStore(objects), embeddingProject({ normalize: false }));
    const current = await createModelStore(objects).readManifest("vectors", 1);
    const { normalize, ...others } = current as typeof current & { readonly normalize: boolean };
    const formerManifest = { ...others, normalise: normalize };
    const signedStore = createModelStore(objects, {
      signingKeys: [key],
      trustedKeys: [key.publicKey],
    });
    await objects.delete(storeLayout.manifest("vectors", 1));
    await signedStore.writeManifest(formerManifest as never);

    expect(manifestSchema.parse(formerManifest)).toEqual(current);
    expect(await signedStore.readSignedManifest("vectors", 1)).toEqual({
      manifest: current,
      signedBy: [key.id],
      isVerified: true,
    });
  });

  it("does not create a new version when only its name differs", async () => {
    const objects = createMemoryObjectStore();
    const store = createModelStore(objects);
    await publishModel(store, embeddingProject());
    const current = await store.readManifest("vectors", 1);
    const { normalize, ...others } = current as typeof current & { readonly normalize: boolean };
    await objects.put(
      storeLayout.manifest("vectors", 1),
      new TextEncoder().encode(JSON.stringify({ ...others, normalise: normalize })),
      { kind: "any" },
      "application/json",
    );

    expect(await publishModel(store, embeddingProject())).toMatchObject({
      version: 1,
      outcome: "unchanged",
    });
    expect(await store.writeManifest(current as NonNullable<typeof current>)).toEqual({
      created: false,
    });
  });
});
