import fc from "fast-check";
import { beforeEach, describe, expect, it } from "vitest";
import { ManualClock, systemClock } from "../../src/core/clock.ts";
import { coreErrors } from "../../src/core/common-errors.ts";
import type { NamedTensors, TensorOf } from "../../src/core/tensor.ts";
import { createExecutor } from "../../src/region/server/batching/create-executor.ts";
// Request coalescing: identical concurrent requests share one run, and each client has its own deadline and cancellation.
// The table of different requests and the property test make the file long.
import { regionServerErrors } from "../../src/region/server/errors.ts";
import {
  createRequestCoalescer,
  isCoalescable,
  type CoalescableRequest,
  type RequestCoalescer,
  type Waiter,
} from "../../src/region/server/request-coalescing.ts";
import { createInferenceStatistics } from "../../src/region/server/statistics.ts";
import type { Session } from "../../src/runtime/runtime.ts";
import { propertyRuns } from "../support/property-runs.ts";
import {
  createCountingRuntime,
  createRegionFixture,
  postRequest,
  publishMoodModel,
  type RegionFixture,
  createTextBody,
} from "./region-fixture.ts";

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
    data: texts.map((value) => new TextEncoder().encode(value)),
  },
});
const answer: NamedTensors = { y: { datatype: "FP32", shape: [1], data: Float32Array.of(1) } };

let clock: ManualClock;
let shared: RequestCoalescer;
/** Started runs; the test settles each of them. */
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
const settleAll = async (...calls: Promise<unknown>[]) =>
  (await Promise.allSettled(calls)).map((result) =>
    result.status === "fulfilled" ? "answered" : result.reason.code,
  );

const differentRequests: [title: string, more: Partial<CoalescableRequest>][] = [
  ["another session", { session: createSession() }],
  ["another priority", { priority: 1 }],
  ["another text", { inputs: text("bad") }],
  ["the same characters in other elements", { inputs: text("go", "od") }],
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
];

describe("a shared run", () => {
  it("answers all identical requests that arrive before it ends", async () => {
    const calls = Array.from({ length: 64 }, () => callCoalescer());
    expect(startedRuns).toHaveLength(1);
    startedRuns[0]?.resolve(answer);
    expect((await Promise.all(calls)).map(({ isCoalesced }) => isCoalesced)).toEqual([
      false,
      ...Array(63).fill(true),
    ]);
    const later = callCoalescer();
    expect(startedRuns).toHaveLength(2); // Results are not cached.
    startedRuns[1]?.resolve(answer);
    expect(await later).toEqual({ outputs: answer, isCoalesced: false });
  });

  it.each(differentRequests)("does not include requests with %s", async (_title, more) => {
    const both = [callCoalescer(), callCoalescer(more)];
    expect(startedRuns).toHaveLength(2);
    for (const run of startedRuns) run.resolve(answer);
    expect(await settleAll(...both)).toEqual(["answered", "answered"]);
  });

  it("includes requests with equal tensors in other memory and another order", async () => {
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
    expect(startedRuns).toHaveLength(1);
    expect(await settleAll(...both)).toEqual(["answered", "answered"]);
  });
});

describe("the clients of a shared run", () => {
  it("continue after the first one disconnects, and cancel the run when the last one does", async () => {
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
    const next = callCoalescer(); // Does not join the cancelled run.
    expect(startedRuns).toHaveLength(2);
    startedRuns[1]?.resolve(answer);
    expect(await settleAll(next)).toEqual(["answered"]);
  });

  it("keep their own deadlines; the run has none", async () => {
    const three = [
      callCoalescer({ expiresAtMs: 1_050 }),
      callCoalescer({ expiresAtMs: 1_200 }),
      callCoalescer(),
    ];
    expect(startedRuns).toMatchObject([{ expiresAtMs: undefined }]);
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

  it("start another run if the queue lets the first one expire", async () => {
    const three = [callCoalescer(), callCoalescer(), callCoalescer()];
    startedRuns[0]?.reject(regionServerErrors.requestExpired());
    expect(await settleAll(...three.slice(0, 1))).toEqual(["request_expired"]);
    expect(startedRuns).toHaveLength(2);
    startedRuns[1]?.resolve(answer);
    expect(await settleAll(...three)).toEqual(["request_expired", "answered", "answered"]);
  });

  it("all fail if the run fails", async () => {
    const both = [callCoalescer(), callCoalescer()];
    startedRuns[0]?.reject(coreErrors.sessionFailed("no"));
    expect(await settleAll(...both)).toEqual(["session_failed", "session_failed"]);
  });
});

describe("any sequence of clients", () => {
  it("leads to at most one run at a time, which ends exactly when no client waits", async () => {
    const step = fc.oneof(
      fc.record({
        kind: fc.constant("call" as const),
        timeoutMs: fc.option(fc.integer({ min: 1, max: 50 }), { nil: undefined }),
      }),
      fc.record({ kind: fc.constant("disconnect" as const), which: fc.nat(20) }),
      fc.record({ kind: fc.constant("pass" as const), ms: fc.integer({ min: 1, max: 40 }) }),
      fc.record({ kind: fc.constant("finish" as const) }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
        [clock, startedRuns] = [new ManualClock(1_000), []];
        shared = createRequestCoalescer(clock);
        const waiting = new Map<AbortController, number>();
        const calls: Promise<unknown>[] = [];
        let running = 0;
        for (const action of steps) {
          if (action.kind === "call") {
            const client = new AbortController();
            waiting.set(
              client,
              action.timeoutMs === undefined ? Infinity : clock.now() + action.timeoutMs,
            );
            calls.push(
              callCoalescer({
                signal: client.signal,
                expiresAtMs:
                  action.timeoutMs === undefined ? undefined : clock.now() + action.timeoutMs,
              }).catch(() => {}),
            );
          } else if (action.kind === "disconnect") {
            const client = [...waiting.keys()][action.which];
            client?.abort();
            if (client !== undefined) waiting.delete(client);
          } else if (action.kind === "pass") {
            clock.advance(action.ms);
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
        await Promise.all(calls);
      }),
      { numRuns: propertyRuns(200), seed: 20_261_122 },
    );
  });
});

it("applies to queues in which requests expire independently", () => {
  expect({
    default: isCoalescable(undefined),
    empty: isCoalescable({}),
    reject: isCoalescable({ timeoutAction: "reject" }),
    delay: isCoalescable({ timeoutAction: "delay" }),
    noOverride: isCoalescable({ allowTimeoutOverride: false }),
  }).toEqual({ default: true, empty: true, reject: true, delay: false, noOverride: false });
});

async function startRegion(
  sharedRuns?: RequestCoalescer,
): Promise<RegionFixture & { runs: () => number; stats: () => Promise<Record<string, unknown>> }> {
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
const infer64 = async ({ app }: RegionFixture) =>
  await Promise.all(
    Array.from({ length: 64 }, async (_, index) => {
      const outputs =
        index % 2 === 0 ? {} : { outputs: [{ name: "logits", parameters: { classification: 1 } }] };
      return await (
        await app.request(
          "/v2/models/mood/versions/1/infer",
          postRequest(createTextBody(["good"], { id: `r-${index}`, ...outputs })),
        )
      ).json();
    }),
  );

describe("a region with coalescing", () => {
  it("computes 64 identical concurrent requests in one run, and answers each with its own id and format", async () => {
    const region = await startRegion(createRequestCoalescer(systemClock));
    const answers = await infer64(region);
    const data = [[1, 0], ["1.000000:0:good"]];
    expect(answers.map(({ id, outputs }) => ({ id, data: outputs[0].data }))).toEqual(
      Array.from({ length: 64 }, (_, index) => ({ id: `r-${index}`, data: data[index % 2] })),
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

  it("continues for the second client after the first one disconnects, and counts each outcome", async () => {
    const bothArrived = Promise.withResolvers<void>();
    const shared = createRequestCoalescer(systemClock);
    let calls = 0;
    const region = await startRegion({
      execute(request, start) {
        const answer = shared.execute(request, async (waiter) => {
          await bothArrived.promise;
          return await start(waiter);
        });
        if (++calls === 2) bothArrived.resolve();
        return answer;
      },
    });
    const client = new AbortController();
    const infer = (signal?: AbortSignal) =>
      region.app.request("/v2/models/mood/versions/1/infer", {
        ...postRequest(createTextBody(["good"])),
        ...(signal && { signal }),
      });
    const both = [infer(client.signal), infer()];
    void bothArrived.promise.then(() => client.abort());
    expect((await Promise.all(both)).map(({ status }) => status)).toEqual([499, 200]);
    expect(region.runs()).toBe(1);
    expect(await region.stats()).toMatchObject({
      inference_count: 1,
      inference_stats: { success: { count: 1 }, fail: { count: 1 }, cache_hit: { count: 1 } },
    });
  });

  it("computes each request separately if coalescing is disabled", async () => {
    const region = await startRegion();
    await infer64(region);
    expect(region.runs()).toBe(64);
    expect(await region.stats()).toMatchObject({
      inference_count: 64,
      inference_stats: { success: { count: 64 }, cache_hit: { count: 0 } },
    });
  });
});
