// The extra calls of the region pool: hedges, retries, and their budget.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { RegionFailure } from "../../../src/region/region-client.ts";
import { propertyRuns } from "../../support/property-runs.ts";
import {
  createPoolFixture,
  countOccurrences,
  always,
  forwardedRequest,
} from "./region-pool-fixture.ts";
import {
  type ScriptedBehavior,
  advanceUntilSettled,
  respondingRegionOf,
  createRegionRequest,
  type ScriptedRegion,
  flushMicrotasks,
} from "./scripted-region.ts";

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
