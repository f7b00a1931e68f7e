// The pool over regions whose answers are scripted, by a clock that is moved by hand.
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

/** @param latenciesMs of the regions a, b, c in their order; asked from Frankfurt, those of 100 ms and more are in Virginia */
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
  /** Where answers came from; "code" of what failed. */
  const ask = async (times: number, more: Parameters<typeof createRegionRequest>[0] = {}) => {
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
  return { clock, regions, a, b, pool, events, infer, ask, extras, circuits };
}

const countOccurrences = (items: readonly string[]) =>
  Object.fromEntries(
    [...Map.groupBy(items, (item) => item)].map(([item, all]) => [item, all.length]),
  );
const always = (behaviour: ScriptedBehavior) => () => behaviour;

describe("the choice", () => {
  it("is the nearest by distance at first, then the quickest by measure", async () => {
    const clock = new ManualClock();
    const near = createScriptedRegion(clock, "near", 400, { location: frankfurt });
    const far = createScriptedRegion(clock, "far", 60, { location: virginia });
    const pool = createRegionPool([far, near], { clock, random: () => 0.3 });
    let asked: string[] = [];
    near.behavior = () => (asked.push("near"), { afterMs: 400 });
    far.behavior = () => (asked.push("far"), { afterMs: 60 });
    const firstAsked = async () => {
      asked = [];
      await advanceUntilSettled(
        clock,
        pool.infer(createRegionRequest({ clientLocation: frankfurt, timeoutMs: 5_000 })),
      );
      return asked[0];
    };
    expect(await firstAsked()).toBe("near"); // hedged, which tells how quick the other is
    for (let call = 0; call < 30; call++) await firstAsked();
    expect(await firstAsked()).toBe("far");
    clock.advance(120_000); // what was measured is forgotten
    expect(await firstAsked()).toBe("near");
  });

  it("does not take what was not asked yet for the quickest", async () => {
    const clock = new ManualClock();
    const near = createScriptedRegion(clock, "near", 300, { location: frankfurt });
    const far = createScriptedRegion(clock, "far", 420, { location: virginia });
    const pool = createRegionPool([far, near], { clock, random: () => 0.3, extraCallRatio: 0 });
    for (let call = 0; call < 20; call++)
      await advanceUntilSettled(
        clock,
        pool.infer(createRegionRequest({ clientLocation: frankfurt, timeoutMs: 5_000 })),
      );
    expect([near.calls.length > 15, far.calls.length]).toEqual([true, 0]);
  });

  it("leaves a region that hangs before any of its calls has failed", async () => {
    const { a, b, clock, pool, ask } = createPoolFixture([20, 22], { extraCallRatio: 0 });
    await ask(40);
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
    const origins = await ask(20);
    expect([new Set(origins), a.calls.length]).toEqual([new Set(["b"]), hanging]);
    expect(b.calls.length).toBeGreaterThan(20);
    await advanceUntilSettled(clock, Promise.all(pending), 100);
  });

  it("minds the load that a region reports, for a while", async () => {
    const { a, clock, ask } = createPoolFixture([20, 24], { extraCallRatio: 0 });
    a.behavior = always({ afterMs: 20, load: { oldestQueuedMs: 500 } });
    await ask(20);
    const asked = a.calls.length;
    expect(new Set(await ask(20))).toEqual(new Set(["b"]));
    expect(a.calls.length).toBe(asked);
    clock.advance(2_000);
    await ask(10);
    expect(a.calls.length).toBeGreaterThan(asked);
  });

  it("leaves out what says that it is not ready, unless there is nothing else", async () => {
    const { a, b, pool, ask } = createPoolFixture([20, 200]);
    a.isReady = false;
    const later: Promise<unknown>[] = [];
    const waitUntil = (work: Promise<unknown>) => void later.push(work);
    a.behavior = always({ afterMs: 5, failure: "busy" });
    await ask(3, { waitUntil });
    await ask(1, { waitUntil });
    await Promise.all(later);
    a.behavior = always({ afterMs: 20 });
    expect(new Set(await ask(10, { waitUntil }))).toEqual(new Set(["b"]));
    expect(pool.listRegions(undefined).map(({ id, health }) => `${id} ${health}`)).toEqual([
      "a unhealthy",
      "b healthy",
    ]);
    b.behavior = always({ afterMs: 1, failure: "failed" });
    await ask(5, { waitUntil });
    expect(await ask(1)).toEqual(["a"]);
    expect(a.readyCheckCount).toBe(1);
  });
});

describe("health", () => {
  it("is asked of a region in doubt only, and not more often than every five seconds", async () => {
    const { a, b, clock, ask } = createPoolFixture([20, 21]);
    const waitUntil = (work: Promise<unknown>) => void work;
    await ask(50, { waitUntil });
    expect([a.readyCheckCount, b.readyCheckCount]).toEqual([0, 0]);
    a.behavior = always({ afterMs: 1, failure: "failed" });
    a.isReady = false;
    b.behavior = always({ afterMs: 1, failure: "busy" });
    await ask(20, { waitUntil });
    b.behavior = always({ afterMs: 20 });
    expect([a.readyCheckCount, b.readyCheckCount]).toEqual([1, 1]);
    clock.advance(5_000);
    await ask(3, { waitUntil });
    expect(a.readyCheckCount).toBe(2);
  });

  it("brings a region back as soon as it is ready again, long before its breaker would", async () => {
    const { a, b, clock, ask, circuits } = createPoolFixture([20, 100]);
    const waitUntil = (work: Promise<unknown>) => void work;
    [a, b].forEach(
      (region) => (
        (region.behavior = always({ afterMs: 1, failure: "unreached" })),
        (region.isReady = false)
      ),
    );
    for (let second = 0; second < 60; second++) {
      await ask(5, { waitUntil });
      clock.advance(1_000);
    }
    expect(circuits().filter((change) => change === "a open").length).toBeGreaterThan(3);
    a.behavior = always({ afterMs: 20 });
    a.isReady = true;
    clock.advance(5_000);
    await ask(1, { waitUntil });
    expect(await ask(1, { waitUntil })).toEqual(["a"]);
    expect(circuits().at(-1)).toBe("a closed");
  });

  it("fails at once while every circuit is open", async () => {
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
      retryable: true,
      detail: expect.stringMatching(/No region is asked/),
    });
    expect(clock.now()).toBe(startedAtMs);
    expect(pool.listRegions(undefined).map(({ health }) => health)).toEqual([
      "unhealthy",
      "unhealthy",
    ]);
  });

  it("is not held against a region where the caller left, lost patience, or gave it too little time", async () => {
    const { a, pool, clock, infer, circuits } = createPoolFixture([100], { extraCallRatio: 0 });
    for (let call = 0; call < 40; call++) await infer();
    for (let call = 0; call < 20; call++) await infer({ timeoutMs: 30 });
    for (let call = 0; call < 20; call++) {
      const leaving = new AbortController();
      const answer = pool.infer(createRegionRequest(), leaving.signal).catch(() => {});
      clock.advance(50);
      leaving.abort();
      await answer;
    }
    expect([circuits(), pool.listRegions(undefined)[0]?.health]).toEqual([[], "healthy"]);
    a.behavior = always("hangs");
    for (let call = 0; call < 5; call++) await infer({ timeoutMs: 900 });
    expect(circuits()).toEqual(["a open"]);
  });

  it("counts a call once that has failed twice in one region", async () => {
    const { a, ask, extras, circuits } = createPoolFixture([20]);
    await ask(300);
    a.behavior = always("hangs");
    await ask(4);
    expect([countOccurrences(extras())["hedge sent"], circuits()]).toEqual([4, []]);
    await ask(1);
    expect(circuits()).toEqual(["a open"]);
  });
});

describe("hedging", () => {
  /** One call in `every` is 50 times slower. */
  const sometimesSlow =
    (afterMs: number, every: number) =>
    (call: number): ScriptedBehavior => ({
      afterMs: call % every === every - 1 ? 50 * afterMs : afterMs + (call % 5),
    });

  it.each([
    ["a second region", [20, 20]],
    ["its own, where there is no other", [20]],
  ])("answers slow calls from %s, within its budget", async (_where, latenciesMs) => {
    const { regions, clock, pool, infer, extras } = createPoolFixture(latenciesMs);
    for (const region of regions) region.behavior = sometimesSlow(20, 100);
    const tookMs: number[] = [];
    for (let call = 0; call < 3_000; call++) {
      const startedAtMs = clock.now();
      await infer({ timeoutMs: 5_000 });
      tookMs.push(clock.now() - startedAtMs);
    }
    tookMs.sort((a, b) => a - b);
    expect(tookMs[Math.floor(0.999 * tookMs.length)]).toBeLessThan(100); // 1,000 without
    const made = regions.reduce((sum, { calls }) => sum + calls.length, 0);
    expect(made - 3_000).toBeLessThanOrEqual(0.03 * 3_000 + 1);
    expect(countOccurrences(extras())["hedge won"]).toBeGreaterThan(20);
    expect(pool.listRegions(undefined)[0]?.health).toBe("healthy");
  });

  it("abandons the loser, and holds nothing against it", async () => {
    const { a, b, clock, pool, ask, circuits } = createPoolFixture([20, 20]);
    await ask(80);
    const calls = () => a.calls.length + b.calls.length;
    const before = calls();
    a.behavior = b.behavior = () => (calls() === before ? "hangs" : { afterMs: 20 });
    const answer = pool.infer(createRegionRequest());
    await flushMicrotasks();
    clock.advance(30);
    await flushMicrotasks();
    clock.advance(25);
    expect(respondingRegionOf(await answer)).toMatch(/a|b/);
    const abandoned = [...a.calls, ...b.calls].filter((call) => call.aborted());
    expect([abandoned.length, circuits()]).toEqual([1, []]);
  });

  it("does not ask its own region again where that is forbidden, nor anything without a budget", async () => {
    const own = createPoolFixture([20], { hedgeSameRegion: false });
    own.a.behavior = (call) => ({ afterMs: call % 10 === 9 ? 500 : 20 });
    await own.ask(100);
    expect([own.a.calls.length, own.extras()]).toEqual([100, []]);
    const none = createPoolFixture([20, 20], { extraCallRatio: 0 });
    none.a.behavior = none.b.behavior = (call) => ({ afterMs: call % 10 === 9 ? 500 : 20 });
    await none.ask(100);
    expect([none.a.calls.length + none.b.calls.length, none.extras()]).toEqual([100, []]);
  });

  it("forwards a client's request again, and gives the answer that began first", async () => {
    const { a, clock, pool } = createPoolFixture([20]);
    a.behavior = (call) => ({ afterMs: call === 0 ? 900 : 20 });
    const forwarded = {
      model: "mood",
      version: 1,
      requestId: "r",
      timeoutMs: 1_000,
      body: new Uint8Array(3),
      headers: {},
    };
    const result = await advanceUntilSettled(clock, pool.forward(forwarded));
    expect([result, a.calls.map((call) => call.aborted())]).toMatchObject([
      { status: "fulfilled", value: { status: 200 } },
      [true, false],
    ]);
  });
});

describe("retries", () => {
  const retried: [RegionFailure, boolean][] = [
    ["unreached", true],
    ["busy", true],
    ["unreadable", true],
    ["failed", false],
    ["timed_out", false],
  ];
  it.each(retried)("another region is asked after %s: %s", async (failure, isRetried) => {
    const { a, ask, extras } = createPoolFixture([20, 200]);
    a.behavior = always({ afterMs: 2, failure });
    expect(await ask(1)).toEqual([isRetried ? "b" : "region_unavailable"]);
    expect(extras()).toEqual(isRetried ? ["retry sent", "retry won"] : []);
  });

  it("a refusal is an answer", async () => {
    const { a, b, ask, circuits } = createPoolFixture([20, 200]);
    a.behavior = always({ afterMs: 2, isRejected: true });
    expect(new Set(await ask(20))).toEqual(new Set(["region_refused"]));
    expect([b.calls.length, circuits()]).toEqual([0, []]);
  });

  it("only where there is time for it", async () => {
    const { a, b, ask } = createPoolFixture([20, 200]);
    a.behavior = always({ afterMs: 2, failure: "unreached" });
    expect(await ask(1, { timeoutMs: 40 })).toEqual(["region_unavailable"]);
    expect(b.calls).toEqual([]);
  });

  it("of a forwarded request also where the region answers that it is busy; its own answer is given where no other will", async () => {
    const { a, b, clock, pool } = createPoolFixture([20, 200]);
    const forwarded = {
      model: "mood",
      version: 1,
      requestId: "r",
      timeoutMs: 1_000,
      clientLocation: frankfurt,
      body: new Uint8Array(3),
      headers: {},
    };
    const textOf = async () => {
      const result = await advanceUntilSettled(clock, pool.forward(forwarded));
      return result.status === "fulfilled"
        ? [result.value.status, await result.value.text()]
        : result.reason.code;
    };
    a.behavior = always({ afterMs: 2, status: 503 });
    expect([await textOf(), a.calls.map((call) => call.aborted()), b.calls.length]).toEqual([
      [200, "b"],
      [true],
      1,
    ]);
    expect([await textOf(), b.calls.length]).toEqual([[503, "a"], 1]); // the budget is spent
  });

  it("survives the loss of a region without an error, once some budget has been saved", async () => {
    const { a, clock, ask, extras } = createPoolFixture([20, 100]);
    await ask(400);
    a.behavior = always({ afterMs: 1, failure: "unreached" });
    expect(new Set(await ask(100))).toEqual(new Set(["b"]));
    expect(countOccurrences(extras())["retry won"]).toBeLessThan(6); // then it is not asked any more
    a.behavior = always({ afterMs: 20 });
    clock.advance(30_000);
    expect(await ask(1)).toEqual(["a"]);
  });
});

describe("the budget", () => {
  it("holds for any behaviour of the regions, also when all are down", async () => {
    const behaviour = fc.oneof(
      fc.record({ afterMs: fc.integer({ min: 1, max: 300 }) }),
      fc.record({
        afterMs: fc.integer({ min: 1, max: 50 }),
        failure: fc.constantFrom<RegionFailure>("unreached", "busy", "unreadable", "failed"),
      }),
      fc.constant("hangs" as const),
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(behaviour, behaviour, behaviour, fc.nat(2_000)), {
          minLength: 1,
          maxLength: 8,
        }),
        async (phases) => {
          const { regions, clock, ask } = createPoolFixture([20, 30, 90]);
          let calls = 0;
          for (const [first, second, third, passMs] of phases) {
            [first, second, third].forEach(
              (one, index) => ((regions[index] as ScriptedRegion).behavior = always(one)),
            );
            await ask(15, { timeoutMs: 200 });
            calls += 15;
            clock.advance(passMs);
          }
          const made = regions.reduce((sum, region) => sum + region.calls.length, 0);
          expect(made).toBeLessThanOrEqual(calls * 1.03 + 1);
        },
      ),
      { numRuns: propertyRuns(40) },
    );
  });
});

describe("what is told of the regions", () => {
  it("is where, how near and how quick they are, the nearest first, and an address only where it is public", async () => {
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
    const seen = pool.listRegions({ latitudeDegrees: 52.5, longitudeDegrees: 13.4 });
    expect(seen).toEqual([
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

  it("is unknown once nobody has asked for a while: who is left out for being slow must be tried again", async () => {
    const { clock, pool, ask } = createPoolFixture([10], { extraCallRatio: 0 });
    const of = { model: "mood", tier: "heavy" };
    await ask(40);
    expect(pool.latencyQuantileMs(0.95, of)).toBeCloseTo(10.4, 1);
    clock.advance(5_000);
    expect(pool.latencyQuantileMs(0.95, of)).toBeUndefined();
    await ask(1);
    expect(pool.latencyQuantileMs(0.95, of)).toBeCloseTo(10.4, 1);
  });
});

describe("a pool's word on its load", () => {
  it("is that it is saturated while all that may be asked say so, and no longer", async () => {
    const { clock, a, b, pool, ask } = createPoolFixture([10, 12], { extraCallRatio: 0 });
    expect(pool.isSaturated()).toBe(false);
    a.behavior = always({ afterMs: 10, load: { utilization: 0.95 } });
    b.behavior = always({ afterMs: 10, load: { utilization: 0.5 } });
    await ask(20);
    expect(pool.isSaturated()).toBe(false);
    b.behavior = always({ afterMs: 10, failure: "busy" });
    while (!pool.isSaturated()) await ask(1);
    expect(b.calls.length).toBeGreaterThan(0);
    clock.advance(2_000); // nothing has been heard since
    expect(pool.isSaturated()).toBe(false);
  });

  it("takes calls that ran out of time for slow ones, but not those that had less than it usually takes", async () => {
    const { a, pool, ask } = createPoolFixture([100], { extraCallRatio: 0 });
    const p95Ms = () =>
      pool.latencyQuantileMs(0.95, { model: "mood", tier: "heavy" }) ?? Number.NaN;
    await ask(40);
    expect(p95Ms()).toBeCloseTo(100, -1.5);
    await ask(40, { timeoutMs: 20 });
    expect(p95Ms()).toBeCloseTo(100, -1.5);
    a.behavior = always("hangs");
    await ask(4, { timeoutMs: 250 });
    expect(p95Ms()).toBeGreaterThan(240);
  });
});
