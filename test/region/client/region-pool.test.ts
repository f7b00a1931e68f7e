// The region pool over scripted regions, on a manual clock.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ManualClock } from "../../../src/core/clock.ts";
import {
  createRegionPool,
  type RegionEvent,
  type RegionPoolOptions,
} from "../../../src/region/client/region-pool.ts";
import type { RegionFailure } from "../../../src/region/region-client.ts";
import {
  type ScriptedBehavior,
  advanceUntilSettled,
  respondingRegionOf,
  createRegionRequest,
  type ScriptedRegion,
  createScriptedRegion,
  flushMicrotasks,
} from "./scripted-region.ts";
import { propertyRuns } from "../../support/property-runs.ts";

const frankfurt = { latitudeDegrees: 50.11, longitudeDegrees: 8.68 };
const virginia = { latitudeDegrees: 38.95, longitudeDegrees: -77.45 };

/**
 * Creates a pool whose callers are in Frankfurt.
 * @param latenciesMs of the regions a, b and c; a region of 100 ms or more is in Virginia, others are in Frankfurt
 */
function createPoolFixture(
  latenciesMs: readonly number[],
  options: Partial<RegionPoolOptions> = {},
) {
  const clock = new ManualClock(1_000_000);
  const regions = latenciesMs.map((latencyMs, index) =>
    createScriptedRegion(clock, "abc"[index] ?? "", latencyMs, {
      location: latencyMs < 100 ? frankfurt : virginia,
    }),
  );
  const [a, b] = regions as [ScriptedRegion, ScriptedRegion];
  const events: RegionEvent[] = [];
  let state = 7;
  const random = () => (state = (state * 48_271) % 2_147_483_647) / 2_147_483_647;
  const pool = createRegionPool(regions, {
    clock,
    random,
    onEvent: (event) => events.push(event),
    ...options,
  });
  const infer = async (
    more: Parameters<typeof createRegionRequest>[0] = {},
    signal?: AbortSignal,
  ) =>
    await advanceUntilSettled(
      clock,
      pool.infer(createRegionRequest({ clientLocation: frankfurt, ...more }), signal),
    );
  /** Calls the pool `times` times; returns the responding region of each call, or its error code. */
  const inferTimes = async (
    times: number,
    more: Parameters<typeof createRegionRequest>[0] = {},
  ) => {
    const origins: string[] = [];
    for (let call = 0; call < times; call++) {
      const result = await infer(more);
      origins.push(
        result.status === "fulfilled" ? respondingRegionOf(result.value) : result.reason.code,
      );
    }
    return origins;
  };
  const extras = () =>
    events.flatMap((event) =>
      event.kind === "extra_call" ? [`${event.reason} ${event.result}`] : [],
    );
  const circuits = () =>
    events.flatMap((event) => (event.kind === "circuit" ? [`${event.region} ${event.state}`] : []));
  return { clock, regions, a, b, pool, events, infer, inferTimes, extras, circuits };
}

const countOccurrences = (items: readonly string[]) =>
  Object.fromEntries(
    [...Map.groupBy(items, (item) => item)].map(([item, all]) => [item, all.length]),
  );
const always = (behavior: ScriptedBehavior) => () => behavior;
const forwardedRequest = {
  model: "mood",
  version: 1,
  requestId: "r",
  timeoutMs: 1_000,
  clientLocation: frankfurt,
  body: new Uint8Array(3),
  headers: {},
};

describe("the choice of a region by latency", () => {
  it("is the nearest region at first, then the one of the lowest measured latency", async () => {
    const clock = new ManualClock();
    const near = createScriptedRegion(clock, "near", 400, { location: frankfurt });
    const far = createScriptedRegion(clock, "far", 60, { location: virginia });
    const pool = createRegionPool([far, near], { clock, random: () => 0.3 });
    let called: string[] = [];
    near.behavior = () => (called.push("near"), { afterMs: 400 });
    far.behavior = () => (called.push("far"), { afterMs: 60 });
    const inferFirstCalled = async () => {
      called = [];
      await advanceUntilSettled(
        clock,
        pool.infer(createRegionRequest({ clientLocation: frankfurt, timeoutMs: 5_000 })),
      );
      return called[0];
    };
    // The hedge of this call measures the latency of the other region.
    expect(await inferFirstCalled()).toBe("near");
    for (let call = 0; call < 30; call++) await inferFirstCalled();
    expect(await inferFirstCalled()).toBe("far");
    // After two minutes the measurements have expired.
    clock.advance(120_000);
    expect(await inferFirstCalled()).toBe("near");
  });

  it("does not prefer a region without measurements", async () => {
    const clock = new ManualClock();
    const near = createScriptedRegion(clock, "near", 300, { location: frankfurt });
    const far = createScriptedRegion(clock, "far", 420, { location: virginia });
    const pool = createRegionPool([far, near], { clock, random: () => 0.3, extraCallRatio: 0 });
    for (let call = 0; call < 20; call++)
      await advanceUntilSettled(
        clock,
        pool.infer(createRegionRequest({ clientLocation: frankfurt, timeoutMs: 5_000 })),
      );
    expect(near.calls.length).toBeGreaterThan(15);
    expect(far.calls).toEqual([]);
  });
});

describe("the choice of a region by state", () => {
  it("avoids a hanging region before any of its calls has failed", async () => {
    const { a, b, clock, pool, inferTimes } = createPoolFixture([20, 22], { extraCallRatio: 0 });
    await inferTimes(40);
    a.behavior = always("hangs");
    const before = a.calls.length;
    const pending = Array.from({ length: 20 }, () =>
      pool.infer(createRegionRequest()).catch(() => {}),
    );
    await flushMicrotasks();
    clock.advance(80);
    await flushMicrotasks();
    const hanging = a.calls.length;
    expect(hanging).toBeGreaterThan(before);
    const origins = await inferTimes(20);
    expect(new Set(origins)).toEqual(new Set(["b"]));
    expect(a.calls).toHaveLength(hanging);
    expect(b.calls.length).toBeGreaterThan(20);
    await advanceUntilSettled(clock, Promise.all(pending), 100);
  });

  it("avoids a region that reports a high load, until the report expires", async () => {
    const { a, clock, inferTimes } = createPoolFixture([20, 24], { extraCallRatio: 0 });
    a.behavior = always({ afterMs: 20, load: { oldestQueuedMs: 500 } });
    await inferTimes(20);
    const before = a.calls.length;
    expect(new Set(await inferTimes(20))).toEqual(new Set(["b"]));
    expect(a.calls).toHaveLength(before);
    clock.advance(2_000);
    await inferTimes(10);
    expect(a.calls.length).toBeGreaterThan(before);
  });

  it("avoids a region that is not ready, unless every other region fails", async () => {
    const { a, b, pool, inferTimes } = createPoolFixture([20, 200]);
    a.isReady = false;
    const background: Promise<unknown>[] = [];
    const waitUntil = (work: Promise<unknown>) => void background.push(work);
    a.behavior = always({ afterMs: 5, failure: "busy" });
    await inferTimes(3, { waitUntil });
    await inferTimes(1, { waitUntil });
    await Promise.all(background);
    a.behavior = always({ afterMs: 20 });
    expect(new Set(await inferTimes(10, { waitUntil }))).toEqual(new Set(["b"]));
    expect(pool.listRegions(undefined)).toMatchObject([
      { id: "a", health: "unhealthy" },
      { id: "b", health: "healthy" },
    ]);
    b.behavior = always({ afterMs: 1, failure: "failed" });
    await inferTimes(5, { waitUntil });
    expect(await inferTimes(1)).toEqual(["a"]);
    expect(a.readyCheckCount).toBe(1);
  });
});

describe("health checks", () => {
  it("query only doubtful regions, at most every five seconds", async () => {
    const { a, b, clock, inferTimes } = createPoolFixture([20, 21]);
    const waitUntil = (work: Promise<unknown>) => void work;
    await inferTimes(50, { waitUntil });
    expect({ a: a.readyCheckCount, b: b.readyCheckCount }).toEqual({ a: 0, b: 0 });
    a.behavior = always({ afterMs: 1, failure: "failed" });
    a.isReady = false;
    b.behavior = always({ afterMs: 1, failure: "busy" });
    await inferTimes(20, { waitUntil });
    b.behavior = always({ afterMs: 20 });
    expect({ a: a.readyCheckCount, b: b.readyCheckCount }).toEqual({ a: 1, b: 1 });
    clock.advance(5_000);
    await inferTimes(3, { waitUntil });
    expect(a.readyCheckCount).toBe(2);
  });

  it("bring a region back as soon as it is ready, long before its circuit breaker would", async () => {
    const { a, b, clock, inferTimes, circuits } = createPoolFixture([20, 100]);
    const waitUntil = (work: Promise<unknown>) => void work;
    [a, b].forEach(
      (region) => (
        (region.behavior = always({ afterMs: 1, failure: "unreached" })),
        (region.isReady = false)
      ),
    );
    for (let second = 0; second < 60; second++) {
      await inferTimes(5, { waitUntil });
      clock.advance(1_000);
    }
    expect(circuits().filter((change) => change === "a open").length).toBeGreaterThan(3);
    a.behavior = always({ afterMs: 20 });
    a.isReady = true;
    clock.advance(5_000);
    await inferTimes(1, { waitUntil });
    expect(await inferTimes(1, { waitUntil })).toEqual(["a"]);
    expect(circuits().at(-1)).toBe("a closed");
  });
});

describe("circuits", () => {
  it("fail calls immediately while all of them are open", async () => {
    const { a, b, clock, pool } = createPoolFixture([20, 20]);
    [a, b].forEach((region) => (region.behavior = always("hangs")));
    await advanceUntilSettled(
      clock,
      Promise.allSettled(
        Array.from({ length: 30 }, () => pool.infer(createRegionRequest({ timeoutMs: 400 }))),
      ),
    );
    const startedAtMs = clock.now();
    await expect(pool.infer(createRegionRequest())).rejects.toMatchObject({
      code: "region_unavailable",
      status: 503,
      retryable: true,
      retryAfterSeconds: expect.any(Number),
    });
    expect(clock.now()).toBe(startedAtMs);
    expect(pool.listRegions(undefined).map(({ health }) => health)).toEqual([
      "unhealthy",
      "unhealthy",
    ]);
  });

  it("stay closed when the caller disconnects, cancels, or sets too short a timeout", async () => {
    const { a, pool, clock, infer, circuits } = createPoolFixture([100], { extraCallRatio: 0 });
    for (let call = 0; call < 40; call++) await infer();
    for (let call = 0; call < 20; call++) await infer({ timeoutMs: 30 });
    for (let call = 0; call < 20; call++) {
      const client = new AbortController();
      const answer = pool.infer(createRegionRequest(), client.signal).catch(() => {});
      clock.advance(50);
      client.abort();
      await answer;
    }
    expect(circuits()).toEqual([]);
    expect(pool.listRegions(undefined)).toMatchObject([{ health: "healthy" }]);
    a.behavior = always("hangs");
    for (let call = 0; call < 5; call++) await infer({ timeoutMs: 900 });
    expect(circuits()).toEqual(["a open"]);
  });

  it("count a call once that has failed twice in one region", async () => {
    const { a, inferTimes, extras, circuits } = createPoolFixture([20]);
    await inferTimes(300);
    a.behavior = always("hangs");
    await inferTimes(4);
    expect(countOccurrences(extras())).toMatchObject({ "hedge sent": 4 });
    expect(circuits()).toEqual([]);
    await inferTimes(1);
    expect(circuits()).toEqual(["a open"]);
  });
});

describe("hedging of slow calls", () => {
  /** Makes one call in `every` 50 times slower. */
  const sometimesSlow =
    (afterMs: number, every: number) =>
    (call: number): ScriptedBehavior => ({
      afterMs: call % every === every - 1 ? 50 * afterMs : afterMs + (call % 5),
    });

  it.each([
    { from: "a second region", latenciesMs: [20, 20] },
    { from: "the same region if it is the only one", latenciesMs: [20] },
  ])("answers from $from, within its budget", async ({ latenciesMs }) => {
    const { regions, clock, pool, infer, extras } = createPoolFixture(latenciesMs);
    for (const region of regions) region.behavior = sometimesSlow(20, 100);
    const latencies: number[] = [];
    for (let call = 0; call < 3_000; call++) {
      const startedAtMs = clock.now();
      await infer({ timeoutMs: 5_000 });
      latencies.push(clock.now() - startedAtMs);
    }
    latencies.sort((a, b) => a - b);
    // Without hedging, the p99.9 is 1,000 ms.
    expect(latencies[Math.floor(0.999 * latencies.length)]).toBeLessThan(100);
    const callCount = regions.reduce((sum, { calls }) => sum + calls.length, 0);
    expect(callCount - 3_000).toBeLessThanOrEqual(0.03 * 3_000 + 1);
    expect(countOccurrences(extras())["hedge won"]).toBeGreaterThan(20);
    expect(pool.listRegions(undefined)[0]?.health).toBe("healthy");
  });
});

describe("hedging", () => {
  it("aborts the slower call without counting it as a failure", async () => {
    const { a, b, clock, pool, inferTimes, circuits } = createPoolFixture([20, 20]);
    await inferTimes(80);
    const countCalls = () => a.calls.length + b.calls.length;
    const before = countCalls();
    a.behavior = b.behavior = () => (countCalls() === before ? "hangs" : { afterMs: 20 });
    const answer = pool.infer(createRegionRequest());
    await flushMicrotasks();
    clock.advance(30);
    await flushMicrotasks();
    clock.advance(25);
    expect(respondingRegionOf(await answer)).toMatch(/a|b/);
    const abandoned = [...a.calls, ...b.calls].filter((call) => call.aborted());
    expect(abandoned).toHaveLength(1);
    expect(circuits()).toEqual([]);
  });

  it("does not call the same region again when that is disabled", async () => {
    const own = createPoolFixture([20], { hedgeSameRegion: false });
    own.a.behavior = (call) => ({ afterMs: call % 10 === 9 ? 500 : 20 });
    await own.inferTimes(100);
    expect(own.a.calls).toHaveLength(100);
    expect(own.extras()).toEqual([]);
  });

  it("makes no extra call without a budget", async () => {
    const none = createPoolFixture([20, 20], { extraCallRatio: 0 });
    none.a.behavior = none.b.behavior = (call) => ({ afterMs: call % 10 === 9 ? 500 : 20 });
    await none.inferTimes(100);
    expect(none.a.calls.length + none.b.calls.length).toBe(100);
    expect(none.extras()).toEqual([]);
  });

  it("forwards a request a second time, and returns the response that starts first", async () => {
    const { a, clock, pool } = createPoolFixture([20]);
    const { clientLocation: _, ...hedgedRequest } = forwardedRequest;
    a.behavior = (call) => ({ afterMs: call === 0 ? 900 : 20 });
    const result = await advanceUntilSettled(clock, pool.forward(hedgedRequest));
    expect(result).toMatchObject({ status: "fulfilled", value: { status: 200 } });
    expect(a.calls.map((call) => call.aborted())).toEqual([true, false]);
  });
});

describe("retries", () => {
  it.each<{ failure: RegionFailure; isRetried: boolean }>([
    { failure: "unreached", isRetried: true },
    { failure: "busy", isRetried: true },
    { failure: "unreadable", isRetried: true },
    { failure: "failed", isRetried: false },
    { failure: "timed_out", isRetried: false },
  ])("call another region after $failure: $isRetried", async ({ failure, isRetried }) => {
    const { a, inferTimes, extras } = createPoolFixture([20, 200]);
    a.behavior = always({ afterMs: 2, failure });
    expect(await inferTimes(1)).toEqual([isRetried ? "b" : "region_unavailable"]);
    expect(extras()).toEqual(isRetried ? ["retry sent", "retry won"] : []);
  });

  it("are not made after a rejection", async () => {
    const { a, b, inferTimes, circuits } = createPoolFixture([20, 200]);
    a.behavior = always({ afterMs: 2, isRejected: true });
    expect(new Set(await inferTimes(20))).toEqual(new Set(["region_refused"]));
    expect(b.calls).toEqual([]);
    expect(circuits()).toEqual([]);
  });

  it("are not made when too little time remains", async () => {
    const { a, b, inferTimes } = createPoolFixture([20, 200]);
    a.behavior = always({ afterMs: 2, failure: "unreached" });
    expect(await inferTimes(1, { timeoutMs: 40 })).toEqual(["region_unavailable"]);
    expect(b.calls).toEqual([]);
  });

  it("are made for a forwarded request after a busy response, which is returned without a budget", async () => {
    const { a, b, clock, pool } = createPoolFixture([20, 200]);
    const forward = async () => {
      const result = await advanceUntilSettled(clock, pool.forward(forwardedRequest));
      return result.status === "fulfilled"
        ? { status: result.value.status, text: await result.value.text() }
        : result.reason.code;
    };
    a.behavior = always({ afterMs: 2, status: 503 });
    expect(await forward()).toEqual({ status: 200, text: "b" });
    expect(a.calls.map((call) => call.aborted())).toEqual([true]);
    expect(b.calls).toHaveLength(1);
    // The retry has spent the budget.
    expect(await forward()).toEqual({ status: 503, text: "a" });
    expect(b.calls).toHaveLength(1);
  });

  it("survive the loss of a region without an error, once some budget has been saved", async () => {
    const { a, clock, inferTimes, extras } = createPoolFixture([20, 100]);
    await inferTimes(400);
    a.behavior = always({ afterMs: 1, failure: "unreached" });
    expect(new Set(await inferTimes(100))).toEqual(new Set(["b"]));
    expect(countOccurrences(extras())["retry won"]).toBeLessThan(6); // Then its circuit is open.
    a.behavior = always({ afterMs: 20 });
    clock.advance(30_000);
    expect(await inferTimes(1)).toEqual(["a"]);
  });
});

describe("the budget of extra calls", () => {
  it("holds for any behavior of the regions, even in a total outage", async () => {
    const behavior = fc.oneof(
      fc.record({ afterMs: fc.integer({ min: 1, max: 300 }) }),
      fc.record({
        afterMs: fc.integer({ min: 1, max: 50 }),
        failure: fc.constantFrom<RegionFailure>("unreached", "busy", "unreadable", "failed"),
      }),
      fc.constant("hangs" as const),
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(behavior, behavior, behavior, fc.nat(2_000)), {
          minLength: 1,
          maxLength: 8,
        }),
        async (phases) => {
          const { regions, clock, inferTimes } = createPoolFixture([20, 30, 90]);
          let requestCount = 0;
          for (const [first, second, third, passMs] of phases) {
            [first, second, third].forEach(
              (scripted, index) => ((regions[index] as ScriptedRegion).behavior = always(scripted)),
            );
            await inferTimes(15, { timeoutMs: 200 });
            requestCount += 15;
            clock.advance(passMs);
          }
          const callCount = regions.reduce((sum, region) => sum + region.calls.length, 0);
          expect(callCount).toBeLessThanOrEqual(requestCount * 1.03 + 1);
        },
      ),
      { numRuns: propertyRuns(40) },
    );
  });
});

describe("the list of regions", () => {
  it("reports place, distance and latency, the nearest first, and only public URLs", async () => {
    const clock = new ManualClock();
    const regions = [
      createScriptedRegion(clock, "nowhere", 10),
      createScriptedRegion(clock, "us", 10, { location: virginia }),
      createScriptedRegion(clock, "eu", 10, {
        location: frankfurt,
        publicUrl: "https://eu.example.com",
      }),
    ];
    const pool = createRegionPool(regions, { clock });
    expect(pool.latencyQuantileMs(0.95, { model: "mood", tier: "heavy" })).toBeUndefined();
    for (let call = 0; call < 40; call++)
      await advanceUntilSettled(
        clock,
        pool.infer(createRegionRequest({ clientLocation: frankfurt })),
      );
    expect(pool.listRegions({ latitudeDegrees: 52.5, longitudeDegrees: 13.4 })).toEqual([
      {
        id: "eu",
        place: frankfurt,
        url: "https://eu.example.com",
        health: "healthy",
        distanceKm: 422,
        latencyMs: { p50: expect.closeTo(10.4, 1), p95: expect.closeTo(10.4, 1) },
      },
      {
        id: "us",
        place: virginia,
        health: "healthy",
        distanceKm: expect.any(Number),
        latencyMs: null,
      },
      { id: "nowhere", place: null, health: "healthy", distanceKm: null, latencyMs: null },
    ]);
    expect(pool.latencyQuantileMs(0.95, { model: "mood", tier: "heavy" })).toBeCloseTo(10.4, 1);
    expect(pool.latencyQuantileMs(0.95, { model: "mood", tier: "other" })).toBeUndefined();
  });

  it("forgets latencies after five seconds without calls, so that slow regions are tried again", async () => {
    const { clock, pool, inferTimes } = createPoolFixture([10], { extraCallRatio: 0 });
    const tier = { model: "mood", tier: "heavy" };
    await inferTimes(40);
    expect(pool.latencyQuantileMs(0.95, tier)).toBeCloseTo(10.4, 1);
    clock.advance(5_000);
    expect(pool.latencyQuantileMs(0.95, tier)).toBeUndefined();
    await inferTimes(1);
    expect(pool.latencyQuantileMs(0.95, tier)).toBeCloseTo(10.4, 1);
  });
});

describe("the load of a pool", () => {
  it("is saturated only while every available region reports saturation", async () => {
    const { clock, a, b, pool, inferTimes } = createPoolFixture([10, 12], { extraCallRatio: 0 });
    expect(pool.isSaturated()).toBe(false);
    a.behavior = always({ afterMs: 10, load: { utilization: 0.95 } });
    b.behavior = always({ afterMs: 10, load: { utilization: 0.5 } });
    await inferTimes(20);
    expect(pool.isSaturated()).toBe(false);
    b.behavior = always({ afterMs: 10, failure: "busy" });
    while (!pool.isSaturated()) await inferTimes(1);
    expect(b.calls.length).toBeGreaterThan(0);
    clock.advance(2_000); // The reports have expired.
    expect(pool.isSaturated()).toBe(false);
  });

  it("counts timed-out calls as slow, except those with a timeout below the usual latency", async () => {
    const { a, pool, inferTimes } = createPoolFixture([100], { extraCallRatio: 0 });
    const readP95Ms = () =>
      pool.latencyQuantileMs(0.95, { model: "mood", tier: "heavy" }) ?? Number.NaN;
    await inferTimes(40);
    expect(readP95Ms()).toBeCloseTo(100, -1.5);
    await inferTimes(40, { timeoutMs: 20 });
    expect(readP95Ms()).toBeCloseTo(100, -1.5);
    a.behavior = always("hangs");
    await inferTimes(4, { timeoutMs: 250 });
    expect(readP95Ms()).toBeGreaterThan(240);
  });
});
