// Model loading: single-flight, verified and warmed up; a version that cannot be loaded leaves the others serving.
// The table of faulty versions makes the file long.
import { describe, expect, it } from "vitest";
import { ManualClock } from "../../src/core/clock.ts";
import { executionProviderSchema } from "../../src/core/execution-provider.ts";
import { createMemoryObjectStore } from "../../src/registry/drivers/memory.ts";
import type { TextClassificationTier } from "../../src/registry/manifest.ts";
import { parseModelRef } from "../../src/registry/model-ref.ts";
import type { ObjectStore } from "../../src/registry/object-store.ts";
import { storeLayout } from "../../src/registry/store-layout.ts";
import {
  createRegionFixture,
  createCountingRuntime,
  readFixture,
  publishMoodModel,
  type RegionFixture,
} from "./region-fixture.ts";

const getModel = (region: RegionFixture, ref: string) =>
  region.repository.getModel(parseModelRef(ref));
const getVersion = async (region: RegionFixture, ref: string) =>
  (await getModel(region, ref)).manifest.version;

const connectionError = new Error("connection refused");

/** Object store whose connections fail between `down()` and `up()`. */
function createFailingStore(): { objects: ObjectStore; down(): void; up(): void } {
  const inner = createMemoryObjectStore();
  let isDown = false;
  const objects = new Proxy(inner, {
    get: (target, name: keyof ObjectStore) =>
      isDown ? () => Promise.reject(connectionError) : target[name],
  });
  return { objects, down: () => void (isDown = true), up: () => void (isDown = false) };
}

const bag = "bag-of-tokens.onnx";
const faults: [
  title: string,
  code: string,
  detail: RegExp,
  graph: string,
  edit: (tier: TextClassificationTier) => void,
][] = [
  [
    "another digest",
    "artifact_corrupt",
    /0{12}/,
    bag,
    (tier) => (tier.graph = { ...tier.graph, sha256: "0".repeat(64) }),
  ],
  [
    "another size",
    "artifact_corrupt",
    /bytes/,
    bag,
    (tier) => (tier.graph = { ...tier.graph, size: 1 }),
  ],
  [
    "a graph that is not ONNX",
    "session_failed",
    /ONNX Runtime/,
    bag,
    (tier) => (tier.graph = tier.preprocessor.artifact),
  ],
  [
    "a preprocessor that is no tokenizer",
    "preprocessor_invalid",
    /wordpiece/,
    bag,
    (tier) => (tier.preprocessor.artifact = tier.graph),
  ],
  [
    "an output that the graph lacks",
    "manifest_invalid",
    /\bscores\b/,
    bag,
    (tier) => (tier.outputs = [{ name: "scores", datatype: "FP32", shape: [-1, 2] }]),
  ],
  [
    "an input of another datatype",
    "manifest_invalid",
    /input_ids.*INT64.*INT32/,
    bag,
    (tier) => (tier.inputs = tier.inputs.map((spec) => ({ ...spec, datatype: "INT32" }))),
  ],
  [
    "a graph that does not match its preprocessor",
    "warmup_failed",
    /"default, 1 row"/,
    "int64-identity.onnx",
    (tier) => {
      tier.inputs = [{ name: "x", datatype: "INT64", shape: [-1] }];
      tier.outputs = [{ name: "y", datatype: "INT64", shape: [-1] }];
    },
  ],
];

describe("a model", () => {
  it("is loaded and warmed up once for all concurrent first requests", async () => {
    const { counts, runtime } = createCountingRuntime();
    const region = createRegionFixture({ runtime });
    await publishMoodModel(region.store, {
      tiers: { light: "bag-of-tokens.onnx", heavy: "slow-bag-of-tokens.onnx" },
    });
    expect(counts).toEqual({ sessions: 0, runs: 0, disposed: 0 });

    const all = await Promise.all(Array.from({ length: 20 }, () => getModel(region, "mood@1")));
    expect(new Set(all).size).toBe(1);
    expect(all[0]?.tiers.map((tier) => tier.manifest.id)).toEqual(["light", "heavy"]);
    expect(counts).toEqual({ sessions: 2, runs: 2, disposed: 0 });
    expect(region.events).toEqual([
      {
        event: "model_loaded",
        model: "mood",
        version: 1,
        durationMs: expect.any(Number),
        bytes: all[0]?.memoryBytes,
      },
    ]);

    await region.repository.dispose();
    expect(counts.disposed).toBe(2);
  });

  it("is loaded without its edge tiers", async () => {
    const region = createRegionFixture();
    await publishMoodModel(region.store, {
      tiers: { small: "bag-of-tokens.onnx", heavy: "bag-of-tokens.onnx" },
      edit: (tier, index) => void (tier.place = index === 0 ? "edge" : "region"),
    });
    expect((await getModel(region, "mood@1")).tiers.map((tier) => tier.manifest.id)).toEqual([
      "heavy",
    ]);
  });

  it("is rejected with a specific code if it, its version, its alias or its region tier is missing", async () => {
    const region = createRegionFixture();
    await publishMoodModel(region.store);
    await publishMoodModel(region.store, {
      version: 2,
      edit: (tier) => void (tier.place = "edge"),
    });
    await expect(getModel(region, "none@1")).rejects.toMatchObject({ code: "model_not_found" });
    await expect(getModel(region, "none")).rejects.toMatchObject({ code: "model_not_found" });
    await expect(getModel(region, "mood@9")).rejects.toMatchObject({ code: "version_not_found" });
    await expect(getModel(region, "mood")).rejects.toMatchObject({ code: "alias_not_found" });
    await expect(getModel(region, "mood@2")).rejects.toMatchObject({ code: "no_region_tier" });
  });
});

describe("a faulty version", () => {
  it.each(faults)(
    "with %s is rejected, and the previous version continues to serve",
    async (_title, code, detail, graph, edit) => {
      const clock = new ManualClock();
      const region = createRegionFixture({ clock });
      await publishMoodModel(region.store, { version: 1 });
      const { etag } = await region.store.writeAliases("mood", { stable: 1 }, undefined);
      expect(await getVersion(region, "mood")).toBe(1);

      await publishMoodModel(region.store, { version: 2, tiers: { heavy: graph }, edit });
      await region.store.writeAliases("mood", { stable: 2 }, etag);
      clock.advance(5_000);
      await expect(getModel(region, "mood@2")).rejects.toMatchObject({
        code,
        detail: expect.stringMatching(detail),
      });
      expect(await getVersion(region, "mood")).toBe(1);
      expect(await getVersion(region, "mood@1")).toBe(1);
    },
  );
});

describe("a model that could not be loaded", () => {
  it("is loaded again after a delay", async () => {
    const clock = new ManualClock();
    const { objects, down, up } = createFailingStore();
    const region = createRegionFixture({ clock, objects });
    await publishMoodModel(region.store);
    down();
    await expect(getModel(region, "mood@1")).rejects.toThrow(connectionError);
    up();
    clock.advance(999);
    await expect(getModel(region, "mood@1")).rejects.toThrow(connectionError);
    clock.advance(1);
    expect(await getVersion(region, "mood@1")).toBe(1);
    expect(region.events.map((event) => event.event)).toEqual(["model_failed", "model_loaded"]);
  });

  it("is loaded with exponential backoff, and immediately if it is loaded by name", async () => {
    const clock = new ManualClock();
    const { counts, runtime } = createCountingRuntime();
    const region = createRegionFixture({ clock, runtime });
    await publishMoodModel(region.store, {
      tiers: { light: "bag-of-tokens.onnx", heavy: "int64-identity.onnx" },
    });
    await region.store.writeAliases("mood", { stable: 1 }, undefined);
    const attemptSeconds: number[] = [];
    for (let second = 0; second < 70; second++, clock.advance(1_000)) {
      const before = counts.sessions;
      await expect(getModel(region, "mood")).rejects.toMatchObject({ code: "manifest_invalid" });
      if (counts.sessions > before) attemptSeconds.push(second);
    }
    expect(attemptSeconds).toEqual([0, 1, 3, 7, 15, 31, 63]);
    const before = counts.sessions;
    await expect(region.repository.load("mood")).rejects.toMatchObject({
      code: "manifest_invalid",
    });
    expect(counts.sessions).toBeGreaterThan(before);
  });
});

describe("a load with faulty artifacts", () => {
  it("disposes of every session that it has opened", async () => {
    const { counts, runtime } = createCountingRuntime();
    const region = createRegionFixture({ runtime });
    const garbage = (await region.store.writeArtifact(new Uint8Array(99))).ref;
    await publishMoodModel(region.store, {
      tiers: { light: "bag-of-tokens.onnx", heavy: "bag-of-tokens.onnx" },
      edit: (tier, index) => void (tier.graph = index === 1 ? garbage : tier.graph),
    });
    await expect(getModel(region, "mood@1")).rejects.toMatchObject({ code: "session_failed" });
    expect(counts).toMatchObject({ sessions: 1, disposed: 1 });
  });

  it("never passes corrupt bytes to the runtime", async () => {
    const { counts, runtime } = createCountingRuntime();
    const region = createRegionFixture({ runtime });
    const manifest = await publishMoodModel(region.store);
    const flipped = (await readFixture("bag-of-tokens.onnx")).map((byte, index) =>
      index === 100 ? byte ^ 1 : byte,
    );
    await region.objects.put(
      storeLayout.artifact(manifest.tiers[0]?.graph.sha256 ?? ""),
      flipped,
      { kind: "any" },
      "application/octet-stream",
    );
    await expect(getModel(region, "mood@1")).rejects.toMatchObject({
      code: "artifact_corrupt",
      status: 503,
    });
    expect(counts.sessions).toBe(0);
  });
});

describe("a tier's serving configuration", () => {
  it("is merged from the operator and the manifest", async () => {
    const region = createRegionFixture({
      operatorConfig: {
        models: new Map([["mood", { serving: { batching: { mode: "adaptive" } } }]]),
        defaults: { instances: 1 },
      },
    });
    await publishMoodModel(region.store, {
      edit: (tier) => void (tier.serving = { batching: { mode: "off", maxBatchRows: 4 } }),
    });
    const [tier] = (await getModel(region, "mood@1")).tiers;
    expect(tier.serving).toEqual({
      instances: 1,
      batching: { mode: "adaptive", maxBatchRows: 4, queue: {} },
    });
    expect(tier.providerReports).toEqual([{ name: "cpu", precision: "fp32", state: "used" }]);
  });

  it("is reported if its tier does not exist", async () => {
    const tiers = new Map(["heavy", "heavvy"].map((tier) => [tier, { instances: 1 }]));
    const region = createRegionFixture({
      operatorConfig: { models: new Map([["mood", { serving: {}, tiers }]]) },
    });
    await publishMoodModel(region.store);
    await getModel(region, "mood@1");
    expect(region.events.slice(1)).toEqual([
      { event: "tier_unknown", model: "mood", version: 1, tier: "heavvy" },
    ]);
  });

  it("lists execution providers: unavailable ones are reported, and the CPU serves", async () => {
    const region = createRegionFixture();
    await publishMoodModel(region.store, {
      edit: (tier) =>
        void (tier.serving = {
          executionProviders: [executionProviderSchema.parse({ name: "cuda" })],
        }),
    });
    const model = await getModel(region, "mood@1");
    expect(model.tiers[0].providerReports).toEqual([
      {
        name: "cuda",
        precision: "fp32",
        state: "skipped",
        reason: expect.stringContaining("cuda"),
      },
      expect.objectContaining({ name: "cpu", state: "used" }),
    ]);
    expect(region.events).toContainEqual(
      expect.objectContaining({
        event: "provider_skipped",
        model: "mood",
        version: 1,
        tier: "heavy",
        name: "cuda",
      }),
    );
    expect(model.memoryBytes).toBeGreaterThanOrEqual(model.tiers[0].manifest.graph.size);
  });
});

describe("an alias", () => {
  async function createAliasedRegion() {
    const clock = new ManualClock();
    const failing = createFailingStore();
    const region = createRegionFixture({ clock, objects: failing.objects });
    await publishMoodModel(region.store, { version: 1 });
    await publishMoodModel(region.store, { version: 2 });
    const { etag } = await region.store.writeAliases(
      "mood",
      { stable: 1, canary: { version: 2, weight: 0.1 } },
      undefined,
    );
    return { clock, region, etag, ...failing };
  }

  it("refers to a version, with or without a weight", async () => {
    const { region } = await createAliasedRegion();
    expect(await getVersion(region, "mood")).toBe(1);
    expect(await getVersion(region, "mood@canary")).toBe(2);
    await expect(getModel(region, "mood@nobody")).rejects.toMatchObject({
      code: "alias_not_found",
    });
  });

  it("serves the old version until the new one is loaded", async () => {
    const { clock, region, etag } = await createAliasedRegion();
    expect(await getVersion(region, "mood")).toBe(1);
    await region.store.writeAliases("mood", { stable: 2 }, etag);
    expect(await getVersion(region, "mood")).toBe(1); // Aliases are cached for 5 s.
    clock.advance(5_000);
    expect(await getVersion(region, "mood")).toBe(1); // This call starts the load.
    await getModel(region, "mood@2");
    expect(await getVersion(region, "mood")).toBe(2);
  });

  it("stays valid while the store is unavailable", async () => {
    const { clock, region, down } = await createAliasedRegion();
    expect(await getVersion(region, "mood")).toBe(1);
    down();
    clock.advance(60_000);
    expect(await getVersion(region, "mood")).toBe(1);
    await expect(getModel(region, "other")).rejects.toThrow(connectionError);
  });
});
