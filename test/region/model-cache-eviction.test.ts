// Memory budget of loaded models: eviction, models in use, and loads that wait for room.
// The property test at the end needs its own command runner, which makes the file long.
import fc from "fast-check";
import { beforeEach, describe, expect, it } from "vitest";
import { ManualClock } from "../../src/core/clock.ts";
import { createMemoryObjectStore } from "../../src/registry/drivers/memory.ts";
import { parseModelRef } from "../../src/registry/model-ref.ts";
import type { NativeRuntime, NativeSession } from "../../src/runtime/native/native-runtime.ts";
import { propertyRuns } from "../support/property-runs.ts";
import { publishTensorModel } from "../support/tensor-model.ts";
import {
  createRegionFixture,
  readFixture,
  postRequest,
  publishMoodModel,
  type RegionFixture,
  createTextBody,
} from "./region-fixture.ts";

const SPECS = [{ name: "x", datatype: "FP32" as const, shape: [-1] }];
const graph = (bytes: Uint8Array) => ({ bytes, inputs: SPECS, outputs: SPECS });

/** Runtime whose sessions only have a size; `open` contains those that are not disposed of. */
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

/** Keeps a model in use until `leave` is called; `entered` resolves once it is in use. */
function keepInUse(region: RegionFixture, model: string) {
  const { promise: left, resolve: leave } = Promise.withResolvers<void>();
  const { promise: entered, resolve: enter } = Promise.withResolvers<void>();
  const finished = region.repository.withModel(
    parseModelRef(model),
    async () => (enter(), await left),
  );
  return { finished, entered, leave };
}

const loadedModels = (region: RegionFixture) =>
  region.repository.listLoaded().map(({ manifest }) => manifest.model);

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

describe("a memory budget", () => {
  it("evicts the least recently used model, and loads it again on the next request", async () => {
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

  it("keeps models in use: a load waits until enough of them are unused", async () => {
    const inA = keepInUse(region, "a");
    await inA.entered;
    await use("b");
    const inD = keepInUse(region, "d");
    await waitForPendingLoad(region, "d");
    expect(loadedModels(region).toSorted()).toEqual(["a", "b"]); // Evicting `b` alone would not make enough room.
    await use("a");
    expect(region.events.filter(({ event }) => event === "model_loaded")).toHaveLength(2);

    inA.leave();
    await inD.entered;
    expect(evictions().toSorted()).toEqual(["a", "b"]);
    inD.leave();
    await Promise.all([inA.finished, inD.finished]);
  });
});

describe("a model that does not fit the memory budget", () => {
  it("is rejected after the timeout, and can be loaded later", async () => {
    const inA = keepInUse(region, "a");
    await inA.entered;
    const rejected = use("d").catch((error: unknown) => error);
    await waitForPendingLoad(region, "d");
    clock.advance(10_000);
    expect(await rejected).toMatchObject({
      code: "no_room",
      status: 503,
      retryable: true,
      facts: { bytes: 90 },
    });
    inA.leave();
    await inA.finished;
    clock.advance(1_000);
    expect((await use("d")).memoryBytes).toBe(90);
  });

  it("is rejected without any eviction if it exceeds the whole budget", async () => {
    await use("a");
    await expect(use("huge")).rejects.toMatchObject({
      code: "model_too_large",
      status: 503,
      facts: { bytes: 101, budgetBytes: 100 },
    });
    expect(loadedModels(region)).toEqual(["a"]);
  });
});

describe("an evicted model", () => {
  it("is not loaded by a readiness query", async () => {
    await use("d");
    await use("a");
    expect(await region.repository.isReady(parseModelRef("d"))).toBe(false);
    expect(await region.repository.isReady(parseModelRef("a"))).toBe(true);
    expect(loadedModels(region)).toEqual(["a"]);
  });

  it("is not loaded again by preloading", async () => {
    await use("d");
    await use("a");
    await region.repository.preload([parseModelRef("d")]);
    expect(loadedModels(region)).toEqual(["a"]);
  });

  it("serves its alias again if the new version cannot be loaded", async () => {
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

/** Waits until a load has found no room: the index then shows it as loading, and no other work is pending. */
async function waitForPendingLoad(region: RegionFixture, name: string): Promise<void> {
  await expect
    .poll(() => region.repository.listIndex())
    .toContainEqual({ name, version: "1", state: "LOADING", reason: "" });
  for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate);
}

describe("a model that needs more memory than its graph has bytes", () => {
  it("evicts other models after its load, and before its next one because its size is then known", async () => {
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
    expect(mostBytes()).toBe(120); // Its size was unknown before the load.
    expect(loadedModels(region)).toEqual(["b"]);
    await region.repository.getModel(parseModelRef("a"));
    expect(mostBytes()).toBe(120);
    expect(loadedModels(region)).toEqual(["a"]);
  });

  it("is not loaded again if it cannot fit", async () => {
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

it("answers all requests to four models if two fit the budget", async () => {
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

const BUDGET = 100;
const SIZES = [10, 25, 40, 60];
const commandArbitrary = fc.oneof(
  fc.record({ kind: fc.constant("use" as const), model: fc.nat(SIZES.length - 1) }),
  fc.record({ kind: fc.constant("leave" as const), which: fc.nat(9) }),
  fc.record({ kind: fc.constant("reload" as const), model: fc.nat(SIZES.length - 1) }),
  fc.record({ kind: fc.constant("wait" as const) }),
);
type Command = typeof commandArbitrary extends fc.Arbitrary<infer T> ? T : never;

async function createSizedRegion(runtime: NativeRuntime): Promise<RegionFixture> {
  const region = createRegionFixture({
    clock: new ManualClock(),
    objects: createMemoryObjectStore(),
    runtime,
    memoryBudgetBytes: BUDGET,
  });
  for (const [index, bytes] of SIZES.entries())
    await publishTensorModel(region.store, `m${index}`, graph(new Uint8Array(bytes).fill(index)), {
      places: ["region"],
    });
  return region;
}

/** Uses models until each use is told to leave; fails if a session is disposed of while it is in use. */
function createModelUsers(
  region: RegionFixture,
  sized: Pick<ReturnType<typeof createSizedRuntime>, "open">,
) {
  const userCounts = new Map<NativeSession, number>();
  const leaving: (() => void)[] = [];
  let isEnding = false;
  const addUsers = (session: NativeSession, count: number) =>
    userCounts.set(session, (userCounts.get(session) ?? 0) + count);
  const disposedInUse = () =>
    [...userCounts].filter(([session, users]) => users > 0 && !sized.open.has(session));
  return {
    disposedInUse,
    use: (model: number) =>
      region.repository.withModel(parseModelRef(`m${model}`), async ({ tiers: [tier] }) => {
        const session = tier.session as NativeSession;
        addUsers(session, 1);
        if (!isEnding) await new Promise<void>((resolve) => leaving.push(resolve));
        const disposed = disposedInUse();
        addUsers(session, -1);
        expect(disposed).toEqual([]);
      }),
    leave: (which: number) => leaving.splice(which % Math.max(1, leaving.length), 1)[0]?.(),
    leaveAll() {
      isEnding = true;
      for (const leave of leaving.splice(0)) leave();
    },
  };
}

/** Executes the commands and ends all uses. @returns the outcome of each use and reload; undefined for a success */
async function runCommands(
  commands: readonly Command[],
  sized: ReturnType<typeof createSizedRuntime>,
): Promise<readonly unknown[]> {
  const region = await createSizedRegion(sized.runtime);
  const users = createModelUsers(region, sized);
  const outcomes: Promise<unknown>[] = [];
  const start = (work: Promise<void>) => outcomes.push(work.catch((error: unknown) => error));
  const reload = async (model: string) => {
    await region.repository.unload(model);
    await region.repository.load(model);
  };
  for (const command of commands) {
    if (command.kind === "use") start(users.use(command.model));
    if (command.kind === "leave") users.leave(command.which);
    if (command.kind === "reload") start(reload(`m${command.model}`));
    if (command.kind === "wait")
      for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate);
    expect(users.disposedInUse()).toEqual([]);
  }
  users.leaveAll();
  return await Promise.all(outcomes);
}

it.each([
  ["as large as their graphs", (bytes: number) => bytes, BUDGET],
  ["larger than their graphs", (bytes: number) => bytes + 15, Infinity],
])(
  "keeps models %s within the budget except those in use, and serves every request, for any sequence of commands",
  async (_title, bytesOf, mostBytes) => {
    await fc.assert(
      fc.asyncProperty(fc.array(commandArbitrary, { maxLength: 40 }), async (commands) => {
        const sized = createSizedRuntime(bytesOf);
        const outcomes = await runCommands(commands, sized);
        const failures = outcomes.filter((outcome) => outcome !== undefined);
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
