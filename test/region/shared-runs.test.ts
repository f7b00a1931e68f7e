// Identical requests at the same time: one run, and each caller as if it were alone.
import { regionServerErrors } from "../../src/region/server/errors.ts";
import { coreErrors } from "../../src/core/common-errors.ts";
import fc from "fast-check";
import { beforeEach, describe, expect, it } from "vitest";
import { ManualClock, systemClock } from "../../src/core/clock.ts";
import type { NamedTensors, TensorOf } from "../../src/core/tensor.ts";
import { createExecutor } from "../../src/region/server/batching/create-executor.ts";
import {
  createSharedRuns,
  expiresByItself,
  type SharedRequest,
  type SharedRuns,
  type Waiter,
} from "../../src/region/server/shared-runs.ts";
import { createStatistics } from "../../src/region/server/statistics.ts";
import type { Session } from "../../src/runtime/runtime.ts";
import { countingRuntime, createRegion, post, publish, type Region, textBody } from "./world.ts";

const sessionNamed = (): Session => ({
  inputs: [],
  outputs: [],
  memoryBytes: 0,
  run: async () => ({}),
  dispose: async () => {},
});
const session = sessionNamed();
const text = (...texts: string[]): NamedTensors => ({
  input: {
    datatype: "BYTES",
    shape: [texts.length],
    data: texts.map((one) => new TextEncoder().encode(one)),
  },
});
const answer: NamedTensors = { y: { datatype: "FP32", shape: [1], data: Float32Array.of(1) } };

let clock: ManualClock;
let shared: SharedRuns;
/** Runs that were begun, each to be ended by the test. */
let begun: (Waiter & {
  resolve: (outputs: NamedTensors) => void;
  reject: (error: unknown) => void;
})[];
beforeEach(() => {
  clock = new ManualClock(1_000);
  shared = createSharedRuns(clock);
  begun = [];
});

function ask(more: Partial<SharedRequest> = {}) {
  return shared.run(
    {
      session,
      inputs: text("good"),
      priority: undefined,
      expiresAtMs: undefined,
      signal: new AbortController().signal,
      ...more,
    },
    (waiter) => {
      const { promise, resolve, reject } = Promise.withResolvers<NamedTensors>();
      begun.push({ ...waiter, resolve, reject });
      return promise;
    },
  );
}
const settled = async (...asked: Promise<unknown>[]) =>
  (await Promise.allSettled(asked)).map((one) =>
    one.status === "fulfilled" ? "answered" : one.reason.code,
  );

describe("a shared run", () => {
  it("answers all who ask for the same while it lasts", async () => {
    const asked = Array.from({ length: 64 }, () => ask());
    expect(begun).toHaveLength(1);
    begun[0]?.resolve(answer);
    expect((await Promise.all(asked)).map(({ isShared }) => isShared)).toEqual([
      false,
      ...Array(63).fill(true),
    ]);
    const later = ask();
    expect(begun).toHaveLength(2); // nothing is kept
    begun[1]?.resolve(answer);
    expect(await later).toEqual({ outputs: answer, isShared: false });
  });

  it.each<[what: string, more: Partial<SharedRequest>]>([
    ["another session", { session: sessionNamed() }],
    ["another priority", { priority: 1 }],
    ["another text", { inputs: text("bad") }],
    ["the same characters, cut otherwise", { inputs: text("go", "od") }],
    ["another name", { inputs: { x: text("good")["input"] as TensorOf<"BYTES"> } }],
    [
      "another datatype",
      {
        inputs: {
          input: { datatype: "UINT8", shape: [4], data: new TextEncoder().encode("good") },
        },
      },
    ],
    [
      "another shape",
      {
        inputs: {
          input: { datatype: "BYTES", shape: [1, 1], data: [new TextEncoder().encode("good")] },
        },
      },
    ],
  ])("is not for %s", async (_what, more) => {
    const both = [ask(), ask(more)];
    expect(begun).toHaveLength(2);
    for (const run of begun) run.resolve(answer);
    expect(await settled(...both)).toEqual(["answered", "answered"]);
  });

  it("is for the same views of other memory, named in another order", async () => {
    const at = (offset: number): TensorOf<"INT32"> => ({
      datatype: "INT32",
      shape: [2],
      data: new Int32Array(new Int32Array([9, 9, 9, 9]).buffer, offset, 2).fill(7),
    });
    const both = [
      ask({ inputs: { a: at(0), ...text("x") } }),
      ask({ inputs: { ...text("x"), a: at(8) } }),
    ];
    begun[0]?.resolve(answer);
    expect([begun.length, await settled(...both)]).toEqual([1, ["answered", "answered"]]);
  });

  it("goes on for the others when the first client leaves, and ends with the last", async () => {
    const [first, second] = [new AbortController(), new AbortController()];
    const both = [ask({ signal: first.signal }), ask({ signal: second.signal })];
    first.abort();
    expect(await settled(...both.slice(0, 1))).toEqual(["request_cancelled"]);
    expect(begun[0]?.signal.aborted).toBe(false);
    second.abort();
    expect(await settled(...both)).toEqual(["request_cancelled", "request_cancelled"]);
    expect(begun[0]?.signal.aborted).toBe(true);
    const next = ask(); // does not wait for what was given up
    expect(begun).toHaveLength(2);
    begun[1]?.resolve(answer);
    expect(await settled(next)).toEqual(["answered"]);
  });

  it("keeps each deadline, and has none itself", async () => {
    const three = [ask({ expiresAtMs: 1_050 }), ask({ expiresAtMs: 1_200 }), ask()];
    expect([begun.length, begun[0]?.expiresAtMs]).toEqual([1, undefined]);
    clock.advance(50);
    expect(await settled(...three.slice(0, 1))).toEqual(["request_expired"]);
    clock.advance(100);
    begun[0]?.resolve(answer);
    expect(await settled(...three)).toEqual(["request_expired", "answered", "answered"]);
    expect(await settled(ask({ expiresAtMs: clock.now() }))).toEqual(["request_expired"]);
    expect(begun).toHaveLength(1);
  });

  it("that its queue lets expire is made again for those who came later", async () => {
    const three = [ask(), ask(), ask()];
    begun[0]?.reject(regionServerErrors.requestExpired());
    expect(await settled(...three.slice(0, 1))).toEqual(["request_expired"]);
    expect(begun).toHaveLength(2);
    begun[1]?.resolve(answer);
    expect(await settled(...three)).toEqual(["request_expired", "answered", "answered"]);
  });

  it("that fails has failed for all", async () => {
    const both = [ask(), ask()];
    begun[0]?.reject(coreErrors.sessionFailed("no"));
    expect(await settled(...both)).toEqual(["session_failed", "session_failed"]);
  });

  it("whoever leaves, expires or stays: one run at a time, ended exactly when nobody waits", async () => {
    const step = fc.oneof(
      fc.record({
        kind: fc.constant("ask" as const),
        forMs: fc.option(fc.integer({ min: 1, max: 50 }), { nil: undefined }),
      }),
      fc.record({ kind: fc.constant("leave" as const), who: fc.nat(20) }),
      fc.record({ kind: fc.constant("pass" as const), ms: fc.integer({ min: 1, max: 40 }) }),
      fc.record({ kind: fc.constant("finish" as const) }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
        [clock, begun] = [new ManualClock(1_000), []];
        shared = createSharedRuns(clock);
        const waiting = new Map<AbortController, number>();
        const all: Promise<unknown>[] = [];
        let running = 0;
        for (const one of steps) {
          if (one.kind === "ask") {
            const client = new AbortController();
            waiting.set(client, one.forMs === undefined ? Infinity : clock.now() + one.forMs);
            all.push(
              ask({
                signal: client.signal,
                expiresAtMs: one.forMs === undefined ? undefined : clock.now() + one.forMs,
              }).catch(() => {}),
            );
          } else if (one.kind === "leave") {
            const client = [...waiting.keys()][one.who];
            client?.abort();
            if (client !== undefined) waiting.delete(client);
          } else if (one.kind === "pass") {
            clock.advance(one.ms);
            for (const [client, atMs] of waiting) if (atMs <= clock.now()) waiting.delete(client);
          } else {
            begun.at(-1)?.resolve(answer);
            waiting.clear();
          }
          await new Promise(setImmediate);
          running = begun.filter(({ signal }) => !signal.aborted).length;
          expect(running).toBe(waiting.size > 0 ? 1 : 0);
        }
        begun.at(-1)?.resolve(answer);
        await Promise.all(all);
      }),
      { numRuns: 200, seed: 20_261_122 },
    );
  });
});

it("is for queues in which a request expires by itself", () => {
  expect(
    [
      undefined,
      {},
      { timeoutAction: "reject" },
      { timeoutAction: "delay" },
      { allowTimeoutOverride: false },
    ].map((queue) => expiresByItself(queue as Parameters<typeof expiresByItself>[0])),
  ).toEqual([true, true, true, false, false]);
});

describe("a region", () => {
  async function regionWith(
    sharedRuns?: SharedRuns,
  ): Promise<Region & { runs: () => number; stats: () => Promise<Record<string, unknown>> }> {
    const { counts, runtime } = countingRuntime();
    const statistics = createStatistics();
    const executor = createExecutor({
      defaults: { mode: "off" },
      onRun: (run) => statistics.ran(run),
    });
    const region = createRegion({
      runtime,
      executor,
      statistics,
      onOutcome: (outcome) => statistics.finished(outcome),
      ...(sharedRuns === undefined ? {} : { sharedRuns }),
    });
    await publish(region.store);
    await region.repository.acquire({ model: "mood", target: { kind: "version", version: 1 } });
    const loaded = counts.runs;
    const stats = async () =>
      (await (await region.app.request("/v2/models/mood/versions/1/stats")).json()).model_stats[0];
    return { ...region, runs: () => counts.runs - loaded, stats };
  }
  const ask64 = async ({ app }: Region) =>
    await Promise.all(
      Array.from({ length: 64 }, async (_, index) => {
        const outputs =
          index % 2 === 0
            ? {}
            : { outputs: [{ name: "logits", parameters: { classification: 1 } }] };
        return await (
          await app.request(
            "/v2/models/mood/versions/1/infer",
            post(textBody(["good"], { id: `r-${index}`, ...outputs })),
          )
        ).json();
      }),
    );

  it("computes 64 identical requests at once in one run, and gives each its own id and form", async () => {
    const region = await regionWith(createSharedRuns(systemClock));
    const answers = await ask64(region);
    const data = [[1, 0], ["1.000000:0:good"]];
    expect(answers.map(({ id, outputs }) => [id, outputs[0].data])).toEqual(
      Array.from({ length: 64 }, (_, index) => [`r-${index}`, data[index % 2]]),
    );
    expect(region.runs()).toBe(1);
    expect(await region.stats()).toMatchObject({
      inference_count: 1,
      execution_count: 1,
      inference_stats: {
        success: { count: 64 },
        cache_hit: { count: 63 },
        queue: { count: 64 },
        compute_infer: { count: 1 },
      },
    });
  });

  it("goes on computing for the others when the first client leaves, and counts each as it ended", async () => {
    const bothAsked = Promise.withResolvers<void>();
    const shared = createSharedRuns(systemClock);
    let asked = 0;
    const region = await regionWith({
      run(request, start) {
        const answer = shared.run(request, async (waiter) => {
          await bothAsked.promise;
          return await start(waiter);
        });
        if (++asked === 2) bothAsked.resolve();
        return answer;
      },
    });
    const client = new AbortController();
    const ask = (signal?: AbortSignal) =>
      region.app.request("/v2/models/mood/versions/1/infer", {
        ...post(textBody(["good"])),
        ...(signal && { signal }),
      });
    const both = [ask(client.signal), ask()];
    void bothAsked.promise.then(() => client.abort());
    expect((await Promise.all(both)).map(({ status }) => status)).toEqual([499, 200]);
    expect([region.runs(), await region.stats()]).toMatchObject([
      1,
      {
        inference_count: 1,
        inference_stats: { success: { count: 1 }, fail: { count: 1 }, cache_hit: { count: 1 } },
      },
    ]);
  });

  it("computes each by itself where that is off", async () => {
    const region = await regionWith();
    await ask64(region);
    expect(region.runs()).toBe(64);
    expect(await region.stats()).toMatchObject({
      inference_count: 64,
      inference_stats: { success: { count: 64 }, cache_hit: { count: 0 } },
    });
  });
});
