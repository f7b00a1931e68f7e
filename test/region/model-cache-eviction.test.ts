// A budget of bytes for what is loaded: what goes, what stays, who waits.
import fc from "fast-check";
import { beforeEach, describe, expect, it } from "vitest";
import { ManualClock } from "../../src/core/clock.ts";
import { createMemoryObjectStore } from "../../src/registry/drivers/memory.ts";
import { parseModelRef } from "../../src/registry/model-ref.ts";
import type { NativeRuntime, NativeSession } from "../../src/runtime/native/native-runtime.ts";
import { publishTensorModel } from "../support/tensor-model.ts";
import {
  createRegionFixture,
  readFixture,
  postRequest,
  publishMoodModel,
  type RegionFixture,
  createTextBody,
} from "./region-fixture.ts";
import { propertyRuns } from "../support/property-runs.ts";

const SPECS = [{ name: "x", datatype: "FP32" as const, shape: [-1] }];
const graph = (bytes: Uint8Array) => ({ bytes, inputs: SPECS, outputs: SPECS });

/** Sessions of graphs that are no more than a number of bytes; `open` has those that were not disposed of. */
function createSizedRuntime(bytesOf: (graphBytes: number) => number = (bytes) => bytes) {
  const open = new Map<NativeSession, number>();
  let mostBytes = 0;
  const openBytes = () => [...open.values()].reduce((sum, bytes) => sum + bytes, 0);
  const runtime: NativeRuntime = {
    name: "sized",
    async createSession(model) {
      const memoryBytes = bytesOf(model.byteLength);
      const session: NativeSession = {
        inputs: SPECS,
        outputs: SPECS,
        memoryBytes,
        nodes: undefined,
        run: async (inputs) => inputs,
        dispose: async () => void open.delete(session),
      };
      open.set(session, memoryBytes);
      mostBytes = Math.max(mostBytes, openBytes());
      return session;
    },
  };
  return { runtime, open, openBytes, mostBytes: () => mostBytes };
}

/** Keeps a model in use until it is told to leave; `entered` resolves when it is in. */
function keepInUse(region: RegionFixture, model: string) {
  const { promise: left, resolve: leave } = Promise.withResolvers<void>();
  const { promise: entered, resolve: enter } = Promise.withResolvers<void>();
  const over = region.repository.withModel(parseModelRef(model), async () => (enter(), await left));
  return { over, entered, leave };
}

const loadedModels = (region: RegionFixture) =>
  region.repository.listLoaded().map(({ manifest }) => manifest.model);

describe("within a budget", () => {
  let clock: ManualClock;
  let region: RegionFixture;
  const use = (model: string) => region.repository.getModel(parseModelRef(model));
  const evictions = () =>
    region.events.flatMap((event) => (event.event === "model_evicted" ? [event.model] : []));

  beforeEach(async () => {
    clock = new ManualClock();
    region = createRegionFixture({
      clock,
      runtime: createSizedRuntime().runtime,
      memoryBudgetBytes: 100,
      memoryTimeoutMs: 10_000,
    });
    for (const [model, bytes] of [
      ["a", 40],
      ["b", 40],
      ["c", 30],
      ["d", 90],
      ["huge", 101],
    ] as const) {
      await publishTensorModel(region.store, model, graph(new Uint8Array(bytes).fill(bytes)), {
        places: ["region"],
      });
    }
  });

  it("what was used least recently makes room, and is loaded again when it is asked for", async () => {
    await use("a");
    await use("b");
    await use("a");
    await use("c");
    expect(evictions()).toEqual(["b"]);
    expect(loadedModels(region).toSorted()).toEqual(["a", "c"]);
    expect(await region.repository.listIndex()).toContainEqual({
      name: "b",
      version: "1",
      state: "UNAVAILABLE",
      reason: expect.stringContaining("evicted"),
    });

    await use("b");
    expect(evictions()).toEqual(["b", "a"]);
    expect(
      region.events.filter((event) => event.event === "model_loaded" && event.model === "b"),
    ).toHaveLength(2);
  });

  it("what is in use stays: a load waits until it can make room", async () => {
    const inA = keepInUse(region, "a");
    await inA.entered;
    await use("b");
    const inD = keepInUse(region, "d");
    await waitForPendingLoad(region, "d");
    expect(loadedModels(region).toSorted()).toEqual(["a", "b"]); // `b` need not go: it would be of no use
    await use("a");
    expect(region.events.filter(({ event }) => event === "model_loaded")).toHaveLength(2);

    inA.leave();
    await inD.entered;
    expect(evictions().toSorted()).toEqual(["a", "b"]);
    inD.leave();
    await Promise.all([inA.over, inD.over]);
  });

  it("a load that finds no room in time is refused, and may be tried again", async () => {
    const inA = keepInUse(region, "a");
    await inA.entered;
    const refused = use("d").catch((error: unknown) => error);
    await waitForPendingLoad(region, "d");
    clock.advance(10_000);
    expect(await refused).toMatchObject({
      code: "no_room",
      status: 503,
      retryable: true,
      detail: expect.stringContaining("d@1, which takes 90 bytes"),
    });
    inA.leave();
    await inA.over;
    clock.advance(1_000);
    expect((await use("d")).memoryBytes).toBe(90);
  });

  it("a model larger than all of it is refused, and pushes nothing out", async () => {
    await use("a");
    await expect(use("huge")).rejects.toMatchObject({
      code: "model_too_large",
      status: 503,
      detail: "huge@1 takes 101 bytes; this region has 100 for all models.",
    });
    expect(loadedModels(region)).toEqual(["a"]);
  });

  it("a question whether an evicted model is ready pushes nothing out", async () => {
    await use("d");
    await use("a");
    expect(await region.repository.isReady(parseModelRef("d"))).toBe(false);
    expect(await region.repository.isReady(parseModelRef("a"))).toBe(true);
    expect(loadedModels(region)).toEqual(["a"]);
  });

  it("nor does preloading load an evicted one again", async () => {
    await use("d");
    await use("a");
    await region.repository.preload([parseModelRef("d")]);
    expect(loadedModels(region)).toEqual(["a"]);
  });

  it("an alias whose new version cannot be loaded goes back to the evicted one before it", async () => {
    await use("b");
    await use("d");
    await publishTensorModel(region.store, "b", graph(new Uint8Array(200)), {
      version: 2,
      places: ["region"],
    });
    clock.advance(5_000);
    expect((await use("b")).manifest.version).toBe(1);
  });
});

/** Until a load has found no room: it is then in the index as loading, and nothing else happens by itself. */
async function waitForPendingLoad(region: RegionFixture, name: string): Promise<void> {
  await expect
    .poll(() => region.repository.listIndex())
    .toContainEqual({ name, version: "1", state: "LOADING", reason: "" });
  for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate);
}

describe("a model that takes more than its graph's bytes", () => {
  it("is known for it when it is loaded again, and makes others go when it is loaded", async () => {
    const { runtime, mostBytes } = createSizedRuntime((bytes) => bytes * 2);
    const region = createRegionFixture({
      clock: new ManualClock(),
      runtime,
      memoryBudgetBytes: 100,
    });
    for (const model of ["a", "b"])
      await publishTensorModel(
        region.store,
        model,
        graph(new TextEncoder().encode(model.padEnd(30))),
        { places: ["region"] },
      );
    await region.repository.getModel(parseModelRef("a"));
    await region.repository.getModel(parseModelRef("b"));
    expect(mostBytes()).toBe(120); // nobody knew
    expect(loadedModels(region)).toEqual(["b"]);
    await region.repository.getModel(parseModelRef("a"));
    expect(mostBytes()).toBe(120);
    expect(loadedModels(region)).toEqual(["a"]);
  });

  it("is not tried again where it cannot fit", async () => {
    const { runtime, open } = createSizedRuntime((bytes) => bytes * 4);
    const clock = new ManualClock();
    const region = createRegionFixture({ clock, runtime, memoryBudgetBytes: 100 });
    await publishTensorModel(region.store, "a", graph(new Uint8Array(30)), { places: ["region"] });
    await publishTensorModel(region.store, "b", graph(new Uint8Array(20)), { places: ["region"] });
    await region.repository.getModel(parseModelRef("b"));
    await expect(region.repository.getModel(parseModelRef("a"))).rejects.toMatchObject({
      code: "model_too_large",
    });
    await region.repository.getModel(parseModelRef("b"));
    clock.advance(1_000);
    await expect(region.repository.getModel(parseModelRef("a"))).rejects.toMatchObject({
      code: "model_too_large",
      facts: { bytes: 120 },
    });
    expect(loadedModels(region)).toEqual(["b"]);
    expect(open.size).toBe(1);
  });
});

it("requests to several models where two fit are all answered", async () => {
  const graphBytes = (await readFixture("bag-of-tokens.onnx")).byteLength;
  const region = createRegionFixture({ memoryBudgetBytes: 2.5 * graphBytes });
  for (const model of ["m1", "m2", "m3", "m4"]) {
    await publishMoodModel(region.store, { model });
    await region.store.writeAliases(model, { stable: 1 }, undefined);
  }
  const infer = async (index: number) =>
    (
      await region.app.request(
        `/v2/models/m${1 + (index % 4)}/infer`,
        postRequest(createTextBody(["good"])),
      )
    ).status;
  const statuses = await Promise.all(Array.from({ length: 60 }, (_, index) => infer(index)));
  expect(statuses).toEqual(statuses.map(() => 200));
  expect(region.repository.listLoaded()).toHaveLength(2);
  expect(region.events.filter(({ event }) => event === "model_evicted").length).toBeGreaterThan(1);
});

describe("whatever is asked for, in whatever order", () => {
  const BUDGET = 100;
  const SIZES = [10, 25, 40, 60];
  const command = fc.oneof(
    fc.record({ kind: fc.constant("use" as const), model: fc.nat(SIZES.length - 1) }),
    fc.record({ kind: fc.constant("leave" as const), which: fc.nat(9) }),
    fc.record({ kind: fc.constant("reload" as const), model: fc.nat(SIZES.length - 1) }),
    fc.record({ kind: fc.constant("wait" as const) }),
  );

  it.each([
    ["as large as they look", (bytes: number) => bytes, BUDGET],
    ["larger than they look", (bytes: number) => bytes + 15, Infinity],
  ])(
    "models %s stay within the budget but for what is in use, and everyone is served",
    async (_what, bytesOf, mostBytes) => {
      await fc.assert(
        fc.asyncProperty(fc.array(command, { maxLength: 40 }), async (commands) => {
          const sized = createSizedRuntime(bytesOf);
          const region = createRegionFixture({
            clock: new ManualClock(),
            objects: createMemoryObjectStore(),
            runtime: sized.runtime,
            memoryBudgetBytes: BUDGET,
          });
          for (const [index, bytes] of SIZES.entries())
            await publishTensorModel(
              region.store,
              `m${index}`,
              graph(new Uint8Array(bytes).fill(index)),
              { places: ["region"] },
            );
          const inUse = new Map<NativeSession, number>();
          const leaving: (() => void)[] = [];
          let isEnding = false;
          const outcomes: Promise<unknown>[] = [];
          const start = (work: Promise<void>) =>
            outcomes.push(work.catch((error: unknown) => error));
          const disposedInUse = () =>
            [...inUse].filter(([session, users]) => users > 0 && !sized.open.has(session));

          const use = (model: number) =>
            region.repository.withModel(
              parseModelRef(`m${model}`),
              async ({ tiers: [{ session }] }) => {
                inUse.set(session as NativeSession, (inUse.get(session as NativeSession) ?? 0) + 1);
                if (!isEnding) await new Promise<void>((resolve) => leaving.push(resolve));
                const broken = disposedInUse();
                inUse.set(session as NativeSession, (inUse.get(session as NativeSession) ?? 0) - 1);
                expect(broken).toEqual([]);
              },
            );
          for (const one of commands) {
            if (one.kind === "use") start(use(one.model));
            if (one.kind === "leave")
              leaving.splice(one.which % Math.max(1, leaving.length), 1)[0]?.();
            if (one.kind === "reload")
              start(
                region.repository
                  .unload(`m${one.model}`)
                  .then(() => region.repository.load(`m${one.model}`)),
              );
            if (one.kind === "wait")
              for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate);
            expect(disposedInUse()).toEqual([]);
          }
          isEnding = true;
          for (const leave of leaving.splice(0)) leave();
          const failures = (await Promise.all(outcomes)).filter((outcome) => outcome !== undefined);
          expect(failures).toEqual(
            failures.map(() => expect.objectContaining({ code: "model_unloaded" })),
          );
          expect(sized.mostBytes()).toBeLessThanOrEqual(mostBytes);
          await expect.poll(sized.openBytes).toBeLessThanOrEqual(BUDGET);
        }),
        { numRuns: propertyRuns(200), seed: 4 },
      );
    },
  );
});
