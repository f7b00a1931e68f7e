// Identical requests at the same time: one run, and each caller as if it were alone.
import { regionServerErrors } from "../../src/region/server/errors.ts";
import { coreErrors } from "../../src/core/common-errors.ts";
import fc from "fast-check";
import { beforeEach, describe, expect, it } from "vitest";
import { ManualClock, systemClock } from "../../src/core/clock.ts";
import type { NamedTensors, TensorOf } from "../../src/core/tensor.ts";
import { createExecutor } from "../../src/region/server/batching/create-executor.ts";
import {
  createRequestCoalescer,
  isCoalescable,
  type CoalescableRequest,
  type RequestCoalescer,
  type Waiter,
} from "../../src/region/server/request-coalescing.ts";
import { createInferenceStatistics } from "../../src/region/server/statistics.ts";
import type { Session } from "../../src/runtime/runtime.ts";
import {
  createCountingRuntime,
  createRegionFixture,
  postRequest,
  publishMoodModel,
  type RegionFixture,
  createTextBody,
} from "./region-fixture.ts";
import { propertyRuns } from "../support/property-runs.ts";

const createSession = (): Session => ({
  inputs: [],
  outputs: [],
  memoryBytes: 0,
  run: async () => ({}),
  dispose: async () => {},
});
const session = createSession();
const text = (...texts: string[]): NamedTensors => ({
  input: {
    datatype: "BYTES",
    shape: [texts.length],
    data: texts.map((one) => new TextEncoder().encode(one)),
  },
});
const answer: NamedTensors = { y: { datatype: "FP32", shape: [1], data: Float32Array.of(1) } };

let clock: ManualClock;
let shared: RequestCoalescer;
/** Runs that were begun, each to be ended by the test. */
let startedRuns: (Waiter & {
  resolve: (outputs: NamedTensors) => void;
  reject: (error: unknown) => void;
})[];
beforeEach(() => {
  clock = new ManualClock(1_000);
  shared = createRequestCoalescer(clock);
  startedRuns = [];
});

function callCoalescer(more: Partial<CoalescableRequest> = {}) {
  return shared.execute(
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
      startedRuns.push({ ...waiter, resolve, reject });
      return promise;
    },
  );
}
const settleAll = async (...asked: Promise<unknown>[]) =>
  (await Promise.allSettled(asked)).map((one) =>
    one.status === "fulfilled" ? "answered" : one.reason.code,
  );

describe("a shared run", () => {
  it("answers all who ask for the same while it lasts", async () => {
    const asked = Array.from({ length: 64 }, () => callCoalescer());
    expect(startedRuns).toHaveLength(1);
    startedRuns[0]?.resolve(answer);
    expect((await Promise.all(asked)).map(({ isCoalesced: isShared }) => isShared)).toEqual([
      false,
      ...Array(63).fill(true),
    ]);
    const later = callCoalescer();
    expect(startedRuns).toHaveLength(2); // nothing is kept
    startedRuns[1]?.resolve(answer);
    expect(await later).toEqual({ outputs: answer, isCoalesced: false });
  });

  it.each<[what: string, more: Partial<CoalescableRequest>]>([
    ["another session", { session: createSession() }],
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
    const both = [callCoalescer(), callCoalescer(more)];
    expect(startedRuns).toHaveLength(2);
    for (const run of startedRuns) run.resolve(answer);
    expect(await settleAll(...both)).toEqual(["answered", "answered"]);
  });

  it("is for the same views of other memory, named in another order", async () => {
    const at = (offset: number): TensorOf<"INT32"> => ({
      datatype: "INT32",
      shape: [2],
      data: new Int32Array(new Int32Array([9, 9, 9, 9]).buffer, offset, 2).fill(7),
    });
    const both = [
      callCoalescer({ inputs: { a: at(0), ...text("x") } }),
      callCoalescer({ inputs: { ...text("x"), a: at(8) } }),
    ];
    startedRuns[0]?.resolve(answer);
    expect([startedRuns.length, await settleAll(...both)]).toEqual([1, ["answered", "answered"]]);
  });

  it("goes on for the others when the first client leaves, and ends with the last", async () => {
    const [first, second] = [new AbortController(), new AbortController()];
    const both = [
      callCoalescer({ signal: first.signal }),
      callCoalescer({ signal: second.signal }),
    ];
    first.abort();
    expect(await settleAll(...both.slice(0, 1))).toEqual(["request_cancelled"]);
    expect(startedRuns[0]?.signal.aborted).toBe(false);
    second.abort();
    expect(await settleAll(...both)).toEqual(["request_cancelled", "request_cancelled"]);
    expect(startedRuns[0]?.signal.aborted).toBe(true);
    const next = callCoalescer(); // does not wait for what was given up
    expect(startedRuns).toHaveLength(2);
    startedRuns[1]?.resolve(answer);
    expect(await settleAll(next)).toEqual(["answered"]);
  });

  it("keeps each deadline, and has none itself", async () => {
    const three = [
      callCoalescer({ expiresAtMs: 1_050 }),
      callCoalescer({ expiresAtMs: 1_200 }),
      callCoalescer(),
    ];
    expect([startedRuns.length, startedRuns[0]?.expiresAtMs]).toEqual([1, undefined]);
    clock.advance(50);
    expect(await settleAll(...three.slice(0, 1))).toEqual(["request_expired"]);
    clock.advance(100);
    startedRuns[0]?.resolve(answer);
    expect(await settleAll(...three)).toEqual(["request_expired", "answered", "answered"]);
    expect(await settleAll(callCoalescer({ expiresAtMs: clock.now() }))).toEqual([
      "request_expired",
    ]);
    expect(startedRuns).toHaveLength(1);
  });

  it("that its queue lets expire is made again for those who came later", async () => {
    const three = [callCoalescer(), callCoalescer(), callCoalescer()];
    startedRuns[0]?.reject(regionServerErrors.requestExpired());
    expect(await settleAll(...three.slice(0, 1))).toEqual(["request_expired"]);
    expect(startedRuns).toHaveLength(2);
    startedRuns[1]?.resolve(answer);
    expect(await settleAll(...three)).toEqual(["request_expired", "answered", "answered"]);
  });

  it("that fails has failed for all", async () => {
    const both = [callCoalescer(), callCoalescer()];
    startedRuns[0]?.reject(coreErrors.sessionFailed("no"));
    expect(await settleAll(...both)).toEqual(["session_failed", "session_failed"]);
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
        [clock, startedRuns] = [new ManualClock(1_000), []];
        shared = createRequestCoalescer(clock);
        const waiting = new Map<AbortController, number>();
        const all: Promise<unknown>[] = [];
        let running = 0;
        for (const one of steps) {
          if (one.kind === "ask") {
            const client = new AbortController();
            waiting.set(client, one.forMs === undefined ? Infinity : clock.now() + one.forMs);
            all.push(
              callCoalescer({
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
            startedRuns.at(-1)?.resolve(answer);
            waiting.clear();
          }
          await new Promise(setImmediate);
          running = startedRuns.filter(({ signal }) => !signal.aborted).length;
          expect(running).toBe(waiting.size > 0 ? 1 : 0);
        }
        startedRuns.at(-1)?.resolve(answer);
        await Promise.all(all);
      }),
      { numRuns: propertyRuns(200), seed: 20_261_122 },
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
    ].map((queue) => isCoalescable(queue as Parameters<typeof isCoalescable>[0])),
  ).toEqual([true, true, true, false, false]);
});

describe("a region", () => {
  async function regionWith(
    sharedRuns?: RequestCoalescer,
  ): Promise<
    RegionFixture & { runs: () => number; stats: () => Promise<Record<string, unknown>> }
  > {
    const { counts, runtime } = createCountingRuntime();
    const statistics = createInferenceStatistics();
    const executor = createExecutor({
      defaultBatching: { mode: "off" },
      onRun: (run) => statistics.recordRun(run),
    });
    const region = createRegionFixture({
      runtime,
      executor,
      statistics,
      onOutcome: (outcome) => statistics.recordOutcome(outcome),
      ...(sharedRuns === undefined ? {} : { coalescer: sharedRuns }),
    });
    await publishMoodModel(region.store);
    await region.repository.getModel({ model: "mood", target: { kind: "version", version: 1 } });
    const loaded = counts.runs;
    const stats = async () =>
      (await (await region.app.request("/v2/models/mood/versions/1/stats")).json()).model_stats[0];
    return { ...region, runs: () => counts.runs - loaded, stats };
  }
  const ask64 = async ({ app }: RegionFixture) =>
    await Promise.all(
      Array.from({ length: 64 }, async (_, index) => {
        const outputs =
          index % 2 === 0
            ? {}
            : { outputs: [{ name: "logits", parameters: { classification: 1 } }] };
        return await (
          await app.request(
            "/v2/models/mood/versions/1/infer",
            postRequest(createTextBody(["good"], { id: `r-${index}`, ...outputs })),
          )
        ).json();
      }),
    );

  it("computes 64 identical requests at once in one run, and gives each its own id and form", async () => {
    const region = await regionWith(createRequestCoalescer(systemClock));
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
    const shared = createRequestCoalescer(systemClock);
    let asked = 0;
    const region = await regionWith({
      execute(request, start) {
        const answer = shared.execute(request, async (waiter) => {
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
        ...postRequest(createTextBody(["good"])),
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
