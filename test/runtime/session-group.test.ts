// Tests session groups: the runtime contract with real sessions, and the distribution of runs.
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

/** Creates a member whose runs end when the test ends them. */
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

describe("the runs of a group", () => {
  it("are as concurrent as its members allow, and further runs follow in order", async () => {
    const [a, b] = [createGatedMember(), createGatedMember({ concurrency: 2 })];
    const group = createSessionGroup([a.member, b.member]);
    expect(group).toMatchObject({ concurrency: 3, memoryBytes: 200 });
    const finished: number[] = [];
    const runs = [0, 1, 2, 3, 4].map((id) => group.run({}).then(() => finished.push(id)));
    await flushEventLoop();
    expect({ a: a.ends.length, b: b.ends.length }).toEqual({ a: 1, b: 2 });
    b.ends[1]?.end();
    await flushEventLoop();
    expect({ a: a.ends.length, b: b.ends.length }).toEqual({ a: 1, b: 3 });
    b.ends[2]?.end();
    await flushEventLoop();
    [...a.ends, ...b.ends].forEach(({ end }) => end());
    await Promise.all(runs);
    expect(finished.slice(0, 2)).toEqual([2, 3]);
  });

  it("continue with a member whose run failed", async () => {
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

  it("wait for a busy member instead of a restarting one, unless all members restart", async () => {
    const available = { a: true, b: false };
    const a = createGatedMember();
    const b = createGatedMember();
    Object.defineProperty(a.member, "isAvailable", { get: () => available.a });
    Object.defineProperty(b.member, "isAvailable", { get: () => available.b });
    const group = createSessionGroup([b.member, a.member]);
    const runs = [group.run({}), group.run({})];
    await flushEventLoop();
    expect({ a: a.ends.length, b: b.ends.length }).toEqual({ a: 1, b: 0 });
    a.ends[0]?.end();
    await flushEventLoop();
    expect({ a: a.ends.length, b: b.ends.length }).toEqual({ a: 2, b: 0 });
    available.a = false;
    runs.push(group.run({}));
    await flushEventLoop();
    expect({ a: a.ends.length, b: b.ends.length }).toEqual({ a: 2, b: 1 });
    available.b = true;
    [a.ends[1], b.ends[0]].forEach((run) => run?.end());
    await Promise.all(runs);
  });
});

describe("a group", () => {
  it("disposes of all members once after the last run, and reports a failure", async () => {
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

  it("requires at least one member", () => {
    expect(() => createSessionGroup([])).toThrow(RangeError);
  });
});
