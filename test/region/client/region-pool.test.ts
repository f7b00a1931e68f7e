// The region pool: the choice of a region, health, circuits, and what the pool reports.
import { describe, expect, it } from "vitest";
import { ManualClock } from "../../../src/core/clock.ts";
import { createRegionPool } from "../../../src/region/client/region-pool.ts";
import {
  frankfurt,
  virginia,
  createPoolFixture,
  countOccurrences,
  always,
} from "./region-pool-fixture.ts";
import {
  advanceUntilSettled,
  createRegionRequest,
  createScriptedRegion,
  flushMicrotasks,
} from "./scripted-region.ts";

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
    expect(readP95Ms()).toBeGreaterThanOrEqual(100);
    expect(readP95Ms()).toBeLessThan(110);
    await inferTimes(40, { timeoutMs: 20 });
    expect(readP95Ms()).toBeGreaterThanOrEqual(100);
    expect(readP95Ms()).toBeLessThan(110);
    a.behavior = always("hangs");
    await inferTimes(4, { timeoutMs: 250 });
    expect(readP95Ms()).toBeGreaterThan(240);
  });
});
