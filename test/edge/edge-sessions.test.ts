import { beforeAll, describe, expect, it } from "vitest";
import reference from "../../dist/test/edge/deployment.mjs";
import { sha256Hex } from "../../src/core/hash.ts";
import { predictResponseSchema } from "../../src/protocol/predict.ts";
import type { Manifest, SnapshotRef } from "../../src/registry/manifest.ts";
// Edge sessions: the sources of an isolate's sessions, and their replacement after failures. The app runs in workerd on the
// stripped engine of the reference deployment and on the full engine, with snapshots in the store. One file, because all tests
// share one expensive snapshot.
import { runtimeErrors } from "../../src/runtime/errors.ts";
import type { Deployment } from "../../src/runtime/wasm/deployment.ts";
import { PAGE_BYTES } from "../../src/runtime/wasm/engine.ts";
import { encodeFunctionSet } from "../../src/runtime/wasm/function-set.ts";
import {
  encodeSnapshot,
  type EncodedSnapshot,
  type Snapshot,
} from "../../src/runtime/wasm/snapshot-format.ts";
import { takeSnapshot } from "../../src/runtime/wasm/take-snapshot.ts";
import { createWasmRuntime } from "../../src/runtime/wasm/wasm-runtime.ts";
import toy from "../fixtures/toy.onnx";
import zeros from "../fixtures/zeros.onnx";
import { type EdgeUnderTest, startEdgeUnderTest } from "../support/edge-app.ts";
import { publishToyModel } from "../support/toy-model.ts";
import { fullEngineModule, fullDeployment } from "./full-engine.ts";

const graph = new Uint8Array(toy);
let snapshot: Snapshot;
let encoded: EncodedSnapshot;
let memoryBytes: number;
beforeAll(async () => {
  const input = { ids: { datatype: "INT32" as const, shape: [1, 4], data: new Int32Array(4) } };
  snapshot = await takeSnapshot(fullEngineModule, graph, await sha256Hex(graph), [input]);
  encoded = await encodeSnapshot(snapshot);
  memoryBytes = snapshot.pageCount * PAGE_BYTES;
});

/** Publishes version 2 of the toy with a snapshot of its edge tier. @param changes overrides of the manifest's entry */
async function publishWithSnapshot(
  edge: EdgeUnderTest,
  changes: Partial<SnapshotRef> = {},
  bytes: Uint8Array = encoded.bytes,
): Promise<Manifest> {
  const { tiers } = await publishToyModel(edge.store, graph);
  const { ref } = await edge.store.writeArtifact(bytes);
  const snapshotRef = {
    artifact: ref,
    head: encoded.head,
    engine: fullEngineModule.source,
    functions: encodeFunctionSet([]),
    memoryBytes,
    ...changes,
  };
  const [first, ...rest] = tiers;
  return await publishToyModel(edge.store, graph, {
    version: 2,
    tiers: first === undefined ? [] : [{ ...first, snapshot: snapshotRef }, ...rest],
  });
}

async function predict(
  edge: EdgeUnderTest,
  inputs: string,
): Promise<{ label: string; tier: string; degraded: boolean; errors: unknown[] }> {
  const response = await edge.predict({ inputs, parameters: { cache: "bypass" } });
  const { outputs, usage } = predictResponseSchema.parse(await response.json());
  const { label, tier, degraded } = outputs[0] as (typeof outputs)[number];
  return {
    label,
    tier,
    degraded,
    errors: usage.tiers.flatMap(({ error }) => (error === undefined ? [] : [error])),
  };
}

const listOpenedSessions = (edge: EdgeUnderTest) =>
  edge.readCountedLabels("edgetier_sessions_opened_total");
const readEdgeTierStatus = async (edge: EdgeUnderTest) =>
  ((await (await edge.app.request("/v1/models/toy")).json()) as { tiers: { edge?: unknown }[] })
    .tiers[0]?.edge;
const edgePrediction = { label: "yes", tier: "edge", degraded: false, errors: [] };
const regionPrediction = (error: string) => ({
  label: "no",
  tier: "region",
  degraded: false,
  errors: [error],
});

let edge: EdgeUnderTest;
const start = async (deployment: Deployment = fullDeployment) =>
  (edge = await startEdgeUnderTest(graph, deployment));

describe("the full engine", () => {
  it("opens a model without a snapshot", async () => {
    await start();
    expect(await predict(edge, "yes")).toEqual(edgePrediction);
    expect(listOpenedSessions(edge)).toEqual([{ how: "plain" }]);
    expect(await readEdgeTierStatus(edge)).toEqual({ status: "plain", how: "plain" });
  });

  it("restores a snapshot from the store, once", async () => {
    await start();
    await publishWithSnapshot(edge);
    expect(await predict(edge, "yes")).toEqual(edgePrediction);
    expect(await predict(edge, "yes")).toEqual(edgePrediction);
    expect(listOpenedSessions(edge)).toEqual([{ how: "store" }]);
    expect(await readEdgeTierStatus(edge)).toEqual({ status: "snapshot", how: "snapshot" });
  });

  it.each<
    [name: string, reason: string, changes: () => Partial<SnapshotRef>, bytes: () => Uint8Array]
  >([
    [
      "with a flipped byte",
      "corrupt",
      () => ({}),
      () => encoded.bytes.map((byte, index) => (index === 200_000 ? byte ^ 1 : byte)),
    ],
    ["that is truncated", "truncated", () => ({}), () => encoded.bytes.subarray(0, 500_000)],
    [
      "with another head than its manifest",
      "corrupt",
      () => ({ head: { ...encoded.head, sha256: "0".repeat(64) } }),
      () => encoded.bytes,
    ],
  ])(
    "rejects a snapshot %s, counts it, and opens the model",
    async (_name, reason, changes, bytes) => {
      await start();
      await publishWithSnapshot(edge, changes(), bytes());
      expect(await predict(edge, "yes")).toEqual(edgePrediction);
      expect(edge.readCountedLabels("edgetier_snapshots_refused_total")).toEqual([{ reason }]);
      expect(listOpenedSessions(edge)).toEqual([{ how: "plain" }]);
    },
  );
});

describe("the full engine without a usable snapshot", () => {
  it.each<[name: string, reason: string, changes: Partial<SnapshotRef>]>([
    [
      "is shorter in the store than in its manifest",
      "artifact_corrupt",
      { artifact: { sha256: "", size: 3 } },
    ],
    [
      "is missing in the store",
      "artifact_corrupt",
      { artifact: { sha256: "c".repeat(64), size: 3 } },
    ],
  ])("opens the model if the snapshot %s", async (_name, reason, { artifact }) => {
    await start();
    const { ref } = await edge.store.writeArtifact(encoded.bytes);
    await publishWithSnapshot(edge, {
      artifact: { ...ref, ...artifact, sha256: artifact?.sha256 || ref.sha256 },
    });
    expect(await predict(edge, "yes")).toEqual(edgePrediction);
    expect(edge.readCountedLabels("edgetier_snapshots_refused_total")).toEqual([{ reason }]);
    expect(listOpenedSessions(edge)).toEqual([{ how: "plain" }]);
  });

  it("does not fetch a snapshot of another engine", async () => {
    await start();
    await publishWithSnapshot(edge, { engine: "e".repeat(64) });
    expect(await predict(edge, "yes")).toEqual(edgePrediction);
    expect(listOpenedSessions(edge)).toEqual([{ how: "plain" }]);
    expect(edge.readCountedLabels("edgetier_snapshots_refused_total")).toEqual([]);
  });

  it("escalates to the region after a trap, with a new instance each time", async () => {
    await start();
    const damaged = await encodeSnapshot({
      ...snapshot,
      session: { ...snapshot.session, handle: 0xffff_fff0 },
    }); // a handle beyond the memory
    await publishWithSnapshot(edge, { head: damaged.head }, damaged.bytes);
    expect(await predict(edge, "yes")).toEqual(regionPrediction("engine_trap"));
    expect(await predict(edge, "yes")).toEqual(regionPrediction("engine_trap"));
    expect(edge.readCountedLabels("edgetier_engine_traps_total")).toEqual([
      { kind: "engine_trap" },
      { kind: "engine_trap" },
    ]);
    expect(listOpenedSessions(edge)).toEqual([{ how: "store" }, { how: "store" }]);
    const healthy = await edge.app.request("/v1/models/toy@1/predict?input=yes");
    expect(healthy.status).toBe(200);
  });
});

describe("the instances of the full engine", () => {
  it("replaces an instance after repeated failures, not after a single one", async () => {
    await start();
    const failing = { ...snapshot, pages: snapshot.pages.filter(({ index }) => index < 97) }; // without its heap, ONNX Runtime fails
    const damaged = await encodeSnapshot(failing);
    await publishWithSnapshot(edge, { head: damaged.head }, damaged.bytes);
    for (let request = 0; request < 4; request++)
      expect(await predict(edge, "yes")).toEqual(regionPrediction("session_failed"));
    expect(listOpenedSessions(edge)).toEqual([{ how: "store" }, { how: "store" }]);
  });

  it("counts snapshots rejected at module scope", async () => {
    const failures = [runtimeErrors.snapshotRefused("other_model")];
    edge = await startEdgeUnderTest(graph, fullDeployment, {
      restoredSessions: { sessions: new Map(), failures },
    });
    expect(edge.readCountedLabels("edgetier_snapshots_refused_total")).toEqual([
      { reason: "other_model" },
    ]);
  });
});

const strippedDeployment: Deployment = { ...reference, bundled: [] };
// The manifest's function set decides. The toy's graph needs functions that this engine lacks.
const missingFunctions = { functions: encodeFunctionSet([1, 2, 3, 17_000]) };

describe("a stripped engine", () => {
  it("escalates a version without a snapshot to the region, with the reason", async () => {
    await start(strippedDeployment);
    expect(await predict(edge, "yes")).toEqual(regionPrediction("tier_not_servable"));
    expect(await readEdgeTierStatus(edge)).toEqual({
      status: "unsupported",
      how: "not",
      reason: expect.any(String),
    });
  });

  it("escalates a snapshot of another engine, or with missing functions, to the region", async () => {
    await start(strippedDeployment);
    await publishWithSnapshot(edge, missingFunctions);
    expect(await predict(edge, "yes")).toEqual(regionPrediction("tier_not_servable"));
    expect(await readEdgeTierStatus(edge)).toEqual({
      status: "unsupported",
      how: "not",
      reason: expect.stringContaining("17000"),
    });
    expect(listOpenedSessions(edge)).toEqual([]);

    const other = await startEdgeUnderTest(graph, strippedDeployment);
    await publishWithSnapshot(other, { engine: "e".repeat(64) });
    expect(await predict(other, "yes")).toEqual(regionPrediction("tier_not_servable"));
    expect(await readEdgeTierStatus(other)).toEqual({
      status: "unsupported",
      how: "not",
      reason: expect.stringContaining("eeeeeeeeeeee"),
    });
  });

  it("escalates a damaged snapshot to the region, with the reason", async () => {
    await start(strippedDeployment);
    await publishWithSnapshot(
      edge,
      {},
      encoded.bytes.map((byte, index) => (index === 200_000 ? byte ^ 1 : byte)),
    );
    expect(await predict(edge, "yes")).toEqual(regionPrediction("snapshot_refused"));
    expect(edge.readCountedLabels("edgetier_snapshots_refused_total")).toEqual([
      { reason: "corrupt" },
    ]);
  });
});

describe("a stripped function", () => {
  it("escalates a call of a stripped function to the region, with a new instance each time", async () => {
    await start(strippedDeployment);
    await publishWithSnapshot(edge);
    expect(await predict(edge, "yes")).toEqual(regionPrediction("function_cut"));
    expect(await predict(edge, "yes")).toEqual(regionPrediction("function_cut"));
    expect(listOpenedSessions(edge)).toEqual([{ how: "store" }, { how: "store" }]);
    expect(edge.readCountedLabels("edgetier_engine_traps_total")).toEqual([
      { kind: "function_cut" },
      { kind: "function_cut" },
    ]);
    const [record] = edge.logRecords.filter(({ event }) => event === "engine_trap");
    expect(record).toMatchObject({ level: "error", tier: "edge", engine: fullEngineModule.source });
    expect(typeof (record?.["function"] ?? record?.["slot"])).toBe("number");
  });

  it("falls back to the full engine if the deployment has one", async () => {
    edge = await startEdgeUnderTest(graph, { ...strippedDeployment, fallback: fullEngineModule });
    await publishWithSnapshot(edge);
    expect(await predict(edge, "yes")).toEqual(edgePrediction);
    expect(await predict(edge, "maybe")).toEqual({
      label: "no",
      tier: "region",
      degraded: false,
      errors: [],
    });
    expect(listOpenedSessions(edge)).toEqual([
      { how: "store" },
      { how: "store" },
      { how: "fallback" },
    ]);

    const without = await startEdgeUnderTest(graph, {
      ...strippedDeployment,
      fallback: fullEngineModule,
    });
    expect(await predict(without, "yes")).toEqual(edgePrediction);
    expect(listOpenedSessions(without)).toEqual([{ how: "fallback" }]);
    expect(await readEdgeTierStatus(without)).toEqual({ status: "plain", how: "plain" });
  });
});

describe("the memory budget", () => {
  it("evicts the least recently used session, and opens it again on demand", async () => {
    edge = await startEdgeUnderTest(graph, {
      ...fullDeployment,
      sessionBudgetBytes: 20 * 1024 * 1024,
    }); // an instance starts with 16 MiB
    const documented = Uint8Array.of(...graph, 0x32, 1, 0x61); // doc_string "a" (onnx.proto, ModelProto): the same model in another file
    await publishToyModel(edge.store, documented, { version: 2 });
    const predictAtEdge = async (version: number, input: string) =>
      expect(
        (await edge.app.request(`/v1/models/toy@${version}/predict?input=${input}`)).headers.get(
          "x-edgetier-tier",
        ),
      ).toBe("edge");
    await predictAtEdge(1, "yes");
    await predictAtEdge(2, "yes");
    await predictAtEdge(2, "no");
    expect(listOpenedSessions(edge)).toHaveLength(2);
    expect(edge.readCountedLabels("edgetier_sessions_evicted_total")).toHaveLength(1);
    await predictAtEdge(1, "no");
    expect(listOpenedSessions(edge)).toHaveLength(3);
    expect(edge.readCountedLabels("edgetier_sessions_evicted_total")).toHaveLength(2);
  });

  it("limits an instance, which then continues to work", async () => {
    const session = await createWasmRuntime(fullEngineModule, { maximumPages: 512 }).createSession(
      new Uint8Array(zeros),
    ); // 32 MiB
    const run = async (count: bigint) =>
      (await session.run({ n: { datatype: "INT64", shape: [1], data: BigInt64Array.of(count) } }))[
        "y"
      ]?.shape;
    await expect(run(2n ** 27n)).rejects.toMatchObject({
      code: expect.stringMatching(/^(session_failed|engine_trap)$/),
    });
    expect(await run(10n)).toEqual([10]);
    expect(session.memoryBytes).toBeLessThanOrEqual(512 * PAGE_BYTES);
  });

  it("escalates a session that is too large to the region", async () => {
    edge = await startEdgeUnderTest(graph, {
      ...fullDeployment,
      sessionBudgetBytes: 1_000_000,
    });
    expect(await predict(edge, "yes")).toEqual(regionPrediction("session_too_large"));
    await publishWithSnapshot(edge);
    edge.clock.advance(60_000); // expires the alias
    expect((await predict(edge, "yes")).tier).toBe("region");
    expect(await readEdgeTierStatus(edge)).toMatchObject({ status: "plain", how: "plain" });
  });
});
