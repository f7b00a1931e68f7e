// Where an isolate's sessions come from, and what happens when one breaks: the HTTP application in workerd, on the cut
// engine of the reference deployment and on the full one, with snapshots in the store.
import { runtimeErrors } from "../../src/runtime/errors.ts";
import { beforeAll, describe, expect, it } from "vitest";
import reference from "../../dist/test/edge/deployment.mjs";
import toy from "../fixtures/toy.onnx";
import zeros from "../fixtures/zeros.onnx";
import { sha256Hex } from "../../src/core/hash.ts";
import { predictResponseSchema } from "../../src/protocol/predict.ts";
import type { Manifest, SnapshotRef } from "../../src/registry/manifest.ts";
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
import { type EdgeUnderTest, startEdgeUnderTest } from "../support/edge-app.ts";
import { publishToyModel } from "../support/toy-model.ts";
import { fullEngineModule, fullDeployment } from "./full-engine.ts";

const graph = new Uint8Array(toy);
let taken: Snapshot;
let snapshot: EncodedSnapshot;
let memoryBytes: number;
beforeAll(async () => {
  const input = { ids: { datatype: "INT32" as const, shape: [1, 4], data: new Int32Array(4) } };
  taken = await takeSnapshot(fullEngineModule, graph, await sha256Hex(graph), [input]);
  snapshot = await encodeSnapshot(taken);
  memoryBytes = taken.pageCount * PAGE_BYTES;
});

/** Version 2 of the toy, with a snapshot of its edge tier; `changes` to what the manifest says of it. */
async function publishWithSnapshot(
  edge: EdgeUnderTest,
  changes: Partial<SnapshotRef> = {},
  bytes: Uint8Array = snapshot.bytes,
): Promise<Manifest> {
  const { tiers } = await publishToyModel(edge.store, graph);
  const { ref } = await edge.store.writeArtifact(bytes);
  const ofSnapshot = {
    artifact: ref,
    head: snapshot.head,
    engine: fullEngineModule.source,
    functions: encodeFunctionSet([]),
    memoryBytes,
    ...changes,
  };
  const [first, ...rest] = tiers;
  return await publishToyModel(edge.store, graph, {
    version: 2,
    tiers: first === undefined ? [] : [{ ...first, snapshot: ofSnapshot }, ...rest],
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

const openedSessions = (edge: EdgeUnderTest) =>
  edge.readCountedLabels("edgetier_sessions_opened_total");
const readEdgeTierStatus = async (edge: EdgeUnderTest) =>
  ((await (await edge.app.request("/v1/models/toy")).json()) as { tiers: { edge?: unknown }[] })
    .tiers[0]?.edge;
const edgeAnswer = { label: "yes", tier: "edge", degraded: false, errors: [] };
const regionAnswer = (error: string) => ({
  label: "no",
  tier: "region",
  degraded: false,
  errors: [error],
});

describe("with the full engine", () => {
  let edge: EdgeUnderTest;
  const start = async (deployment: Deployment = fullDeployment) =>
    (edge = await startEdgeUnderTest(graph, deployment));

  it("opens a model that has no snapshot", async () => {
    await start();
    expect(await predict(edge, "yes")).toEqual(edgeAnswer);
    expect(openedSessions(edge)).toEqual([{ how: "plain" }]);
    expect(await readEdgeTierStatus(edge)).toEqual({ how: "plain" });
  });

  it("restores a snapshot from the store, once", async () => {
    await start();
    await publishWithSnapshot(edge);
    expect([await predict(edge, "yes"), await predict(edge, "yes")]).toEqual([
      edgeAnswer,
      edgeAnswer,
    ]);
    expect(openedSessions(edge)).toEqual([{ how: "store" }]);
    expect(await readEdgeTierStatus(edge)).toEqual({ how: "snapshot" });
  });

  it.each<
    [what: string, reason: string, changes: () => Partial<SnapshotRef>, bytes: () => Uint8Array]
  >([
    [
      "with a flipped byte",
      "corrupt",
      () => ({}),
      () => snapshot.bytes.map((byte, index) => (index === 200_000 ? byte ^ 1 : byte)),
    ],
    ["that ends early", "truncated", () => ({}), () => snapshot.bytes.subarray(0, 500_000)],
    [
      "with another head than its manifest says",
      "corrupt",
      () => ({ head: { ...snapshot.head, sha256: "0".repeat(64) } }),
      () => snapshot.bytes,
    ],
  ])(
    "refuses a snapshot %s, counts that, and opens the model",
    async (_what, reason, changes, bytes) => {
      await start();
      await publishWithSnapshot(edge, changes(), bytes());
      expect(await predict(edge, "yes")).toEqual(edgeAnswer);
      expect(edge.readCountedLabels("edgetier_snapshots_refused_total")).toEqual([{ reason }]);
      expect(openedSessions(edge)).toEqual([{ how: "plain" }]);
    },
  );

  it.each<[what: string, reason: string, changes: Partial<SnapshotRef>]>([
    [
      "is shorter in the store than its manifest says",
      "artifact_corrupt",
      { artifact: { sha256: "", size: 3 } },
    ],
    ["is not in the store", "artifact_corrupt", { artifact: { sha256: "c".repeat(64), size: 3 } }],
  ])("opens the model where the snapshot %s", async (_what, reason, { artifact }) => {
    await start();
    const { ref } = await edge.store.writeArtifact(snapshot.bytes);
    await publishWithSnapshot(edge, {
      artifact: { ...ref, ...artifact, sha256: artifact?.sha256 || ref.sha256 },
    });
    expect(await predict(edge, "yes")).toEqual(edgeAnswer);
    expect(edge.readCountedLabels("edgetier_snapshots_refused_total")).toEqual([{ reason }]);
    expect(openedSessions(edge)).toEqual([{ how: "plain" }]);
  });

  it("does not even fetch a snapshot of another engine", async () => {
    await start();
    await publishWithSnapshot(edge, { engine: "e".repeat(64) });
    expect(await predict(edge, "yes")).toEqual(edgeAnswer);
    expect(openedSessions(edge)).toEqual([{ how: "plain" }]);
    expect(edge.readCountedLabels("edgetier_snapshots_refused_total")).toEqual([]);
  });

  it("has the region answer where the engine breaks off, each time in a new instance, and goes on serving", async () => {
    await start();
    const broken = await encodeSnapshot({
      ...taken,
      session: { ...taken.session, handle: 0xffff_fff0 },
    }); // beyond all memory
    await publishWithSnapshot(edge, { head: broken.head }, broken.bytes);
    expect([await predict(edge, "yes"), await predict(edge, "yes")]).toEqual([
      regionAnswer("engine_trap"),
      regionAnswer("engine_trap"),
    ]);
    expect(edge.readCountedLabels("edgetier_engine_traps_total")).toEqual([
      { kind: "engine_trap" },
      { kind: "engine_trap" },
    ]);
    expect(openedSessions(edge)).toEqual([{ how: "store" }, { how: "store" }]);
    const healthy = await edge.app.request("/v1/models/toy@1/predict?input=yes");
    expect(healthy.status).toBe(200);
  });

  it("replaces an instance that fails again and again, and not one that fails once", async () => {
    await start();
    const failing = { ...taken, pages: taken.pages.filter(({ index }) => index < 97) }; // its heap is gone, and ONNX Runtime says so
    const broken = await encodeSnapshot(failing);
    await publishWithSnapshot(edge, { head: broken.head }, broken.bytes);
    for (let request = 0; request < 4; request++)
      expect(await predict(edge, "yes")).toEqual(regionAnswer("session_failed"));
    expect(openedSessions(edge)).toEqual([{ how: "store" }, { how: "store" }]);
  });

  it("counts what was refused at module scope", async () => {
    const refused = [runtimeErrors.snapshotRefused("other_model")];
    edge = await startEdgeUnderTest(graph, fullDeployment, {
      restoredSessions: { sessions: new Map(), failures: refused },
    });
    expect(edge.readCountedLabels("edgetier_snapshots_refused_total")).toEqual([
      { reason: "other_model" },
    ]);
  });
});

describe("with a cut engine", () => {
  const cut: Deployment = { ...reference, bundled: [] };
  // What the manifest claims decides; the toy's graph needs functions that this engine was cut of.
  const lacking = { functions: encodeFunctionSet([1, 2, 3, 17_000]) };

  it("leaves a version without a snapshot to the region, and says why", async () => {
    const edge = await startEdgeUnderTest(graph, cut);
    expect(await predict(edge, "yes")).toEqual(regionAnswer("tier_not_servable"));
    expect(await readEdgeTierStatus(edge)).toEqual({
      how: "not",
      reason: "the version has no snapshot",
    });
  });

  it("leaves a snapshot of another engine, or of functions that it was cut of, to the region", async () => {
    const edge = await startEdgeUnderTest(graph, cut);
    await publishWithSnapshot(edge, lacking);
    expect(await predict(edge, "yes")).toEqual(regionAnswer("tier_not_servable"));
    expect(await readEdgeTierStatus(edge)).toEqual({
      how: "not",
      reason: expect.stringMatching(/was cut of \d of its functions \(.*17000\)/),
    });
    expect(openedSessions(edge)).toEqual([]);

    const other = await startEdgeUnderTest(graph, cut);
    await publishWithSnapshot(other, { engine: "e".repeat(64) });
    expect(await predict(other, "yes")).toEqual(regionAnswer("tier_not_servable"));
    expect(await readEdgeTierStatus(other)).toEqual({
      how: "not",
      reason: expect.stringContaining("made for engine eeeeeeeeeeee"),
    });
  });

  it("leaves a damaged snapshot to the region, and says what was wrong with it", async () => {
    const edge = await startEdgeUnderTest(graph, cut);
    await publishWithSnapshot(
      edge,
      {},
      snapshot.bytes.map((byte, index) => (index === 200_000 ? byte ^ 1 : byte)),
    );
    expect(await predict(edge, "yes")).toEqual(regionAnswer("snapshot_refused"));
    expect(edge.readCountedLabels("edgetier_snapshots_refused_total")).toEqual([
      { reason: "corrupt" },
    ]);
  });

  it("has the region answer where a cut function is called after all, each time in a new instance, and counts it", async () => {
    const edge = await startEdgeUnderTest(graph, cut);
    await publishWithSnapshot(edge);
    expect([await predict(edge, "yes"), await predict(edge, "yes")]).toEqual([
      regionAnswer("function_cut"),
      regionAnswer("function_cut"),
    ]);
    expect(openedSessions(edge)).toEqual([{ how: "store" }, { how: "store" }]);
    expect(edge.readCountedLabels("edgetier_engine_traps_total")).toEqual([
      { kind: "function_cut" },
      { kind: "function_cut" },
    ]);
    const [record] = edge.logRecords.filter(({ event }) => event === "engine_trap");
    expect(record).toMatchObject({ level: "error", tier: "edge", engine: fullEngineModule.source });
    expect(typeof (record?.["function"] ?? record?.["slot"])).toBe("number");
  });

  it("has the full engine beside it answer where there is one", async () => {
    const edge = await startEdgeUnderTest(graph, { ...cut, fallback: fullEngineModule });
    await publishWithSnapshot(edge);
    expect([await predict(edge, "yes"), await predict(edge, "maybe")]).toEqual([
      edgeAnswer,
      { label: "no", tier: "region", degraded: false, errors: [] },
    ]);
    expect(openedSessions(edge)).toEqual([{ how: "store" }, { how: "store" }, { how: "fallback" }]);

    const without = await startEdgeUnderTest(graph, { ...cut, fallback: fullEngineModule });
    expect(await predict(without, "yes")).toEqual(edgeAnswer);
    expect(openedSessions(without)).toEqual([{ how: "fallback" }]);
    expect(await readEdgeTierStatus(without)).toEqual({ how: "plain" });
  });
});

describe("the memory budget", () => {
  it("lets the session unused for longest go, and opens it again when it is asked for", async () => {
    const edge = await startEdgeUnderTest(graph, {
      ...fullDeployment,
      sessionBudgetBytes: 20 * 1024 * 1024,
    }); // an instance begins with 16
    const documented = Uint8Array.of(...graph, 0x32, 1, 0x61); // doc_string "a" (onnx.proto, ModelProto): the same model, another file
    await publishToyModel(edge.store, documented, { version: 2 });
    const ask = async (version: number, input: string) =>
      expect(
        (await edge.app.request(`/v1/models/toy@${version}/predict?input=${input}`)).headers.get(
          "x-edgetier-tier",
        ),
      ).toBe("edge");
    await ask(1, "yes");
    await ask(2, "yes");
    await ask(2, "no");
    expect(openedSessions(edge)).toHaveLength(2);
    expect(edge.readCountedLabels("edgetier_sessions_evicted_total")).toHaveLength(1);
    await ask(1, "no");
    expect(openedSessions(edge)).toHaveLength(3);
    expect(edge.readCountedLabels("edgetier_sessions_evicted_total")).toHaveLength(2);
  });

  it("is refused to an instance that asks for more, and the instance goes on", async () => {
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

  it("leaves a session that is too large to the region", async () => {
    const edge = await startEdgeUnderTest(graph, {
      ...fullDeployment,
      sessionBudgetBytes: 1_000_000,
    });
    expect(await predict(edge, "yes")).toEqual(regionAnswer("session_too_large"));
    await publishWithSnapshot(edge);
    edge.clock.advance(60_000); // the alias
    expect((await predict(edge, "yes")).tier).toBe("region");
    expect(await readEdgeTierStatus(edge)).toMatchObject({ how: "plain" });
  });
});
