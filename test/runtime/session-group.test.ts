// A group of sessions: the contract on real ones, and whom it gives its runs.
import { readFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import type { NamedTensors } from "../../src/core/tensor.ts";
import { createNativeRuntime } from "../../src/runtime/native/native-runtime.ts";
import { createSessionGroup, type GroupMember } from "../../src/runtime/session-group.ts";
import { runtimeContract } from "../contract/runtime.ts";

const readFixture = async (name: string) =>
  new Uint8Array(await readFile(new URL(`../fixtures/${name}`, import.meta.url)));
const flushEventLoop = () => new Promise((resolve) => setImmediate(resolve));

async function openGroup(model: Uint8Array) {
  const native = createNativeRuntime({ intraOpThreads: 1 });
  return createSessionGroup(await Promise.all([1, 2, 3].map(() => native.createSession(model))));
}
runtimeContract(
  "of groups of three sessions",
  async () => ({ name: "groups", createSession: openGroup }),
  readFixture,
);

/** Its runs end when the test says so. */
function createGatedMember(options: Partial<GroupMember> = {}) {
  const ends: { end(): void; fail(): void }[] = [];
  const run = () =>
    new Promise<NamedTensors>((resolve, reject) =>
      ends.push({ end: () => resolve({}), fail: () => reject(new Error("broken")) }),
    );
  const state = { disposed: 0 };
  const member: GroupMember = {
    inputs: [],
    outputs: [],
    memoryBytes: 100,
    run,
    dispose: async () => void state.disposed++,
    ...options,
  };
  return { member, ends, state };
}

describe("a group", () => {
  it("makes as many runs at once as its members, and further ones as they come free, in their order", async () => {
    const [a, b] = [createGatedMember(), createGatedMember({ concurrency: 2 })];
    const group = createSessionGroup([a.member, b.member]);
    expect([group.concurrency, group.memoryBytes]).toEqual([3, 200]);
    const over: number[] = [];
    const runs = [0, 1, 2, 3, 4].map((id) => group.run({}).then(() => over.push(id)));
    await flushEventLoop();
    expect([a.ends.length, b.ends.length]).toEqual([1, 2]);
    b.ends[1]?.end();
    await flushEventLoop();
    expect([a.ends.length, b.ends.length]).toEqual([1, 3]);
    b.ends[2]?.end();
    await flushEventLoop();
    [...a.ends, ...b.ends].forEach(({ end }) => end());
    await Promise.all(runs);
    expect(over.slice(0, 2)).toEqual([2, 3]);
  });

  it("goes on with a member whose run failed", async () => {
    const { member, ends } = createGatedMember();
    const group = createSessionGroup([member]);
    const failing = group.run({});
    await flushEventLoop();
    ends[0]?.fail();
    await expect(failing).rejects.toThrow("broken");
    const next = group.run({});
    await flushEventLoop();
    ends[1]?.end();
    expect(await next).toEqual({});
  });

  it("waits for a busy member rather than for one that is being replaced, unless all are", async () => {
    const serving = { a: true, b: false };
    const a = createGatedMember();
    const b = createGatedMember();
    Object.defineProperty(a.member, "isServing", { get: () => serving.a });
    Object.defineProperty(b.member, "isServing", { get: () => serving.b });
    const group = createSessionGroup([b.member, a.member]);
    const runs = [group.run({}), group.run({})];
    await flushEventLoop();
    expect([a.ends.length, b.ends.length]).toEqual([1, 0]);
    a.ends[0]?.end();
    await flushEventLoop();
    expect([a.ends.length, b.ends.length]).toEqual([2, 0]);
    serving.a = false;
    runs.push(group.run({}));
    await flushEventLoop();
    expect([a.ends.length, b.ends.length]).toEqual([2, 1]);
    serving.b = true;
    [a.ends[1], b.ends[0]].forEach((run) => run?.end());
    await Promise.all(runs);
  });

  it("disposes of all members when the last run is over, once, and tells of a failure", async () => {
    const [a, b] = [
      createGatedMember(),
      createGatedMember({ dispose: async () => Promise.reject(new Error("stuck")) }),
    ];
    const group = createSessionGroup([a.member, b.member]);
    const run = group.run({});
    const disposals = Promise.allSettled([group.dispose(), group.dispose()]);
    await flushEventLoop();
    expect(a.state.disposed).toBe(0);
    a.ends[0]?.end();
    await run;
    expect(await disposals).toMatchObject([
      { reason: { message: "stuck" } },
      { reason: { message: "stuck" } },
    ]);
    expect(a.state.disposed).toBe(1);
  });

  it("is of at least one", () => {
    expect(() => createSessionGroup([])).toThrow(RangeError);
  });
});
