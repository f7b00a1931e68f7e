import { describe, expect, it } from "vitest";
import { ManualClock } from "../../../src/core/clock.ts";
import { greatCircleDistanceKm } from "../../../src/core/geo.ts";
import { chooseRegion } from "../../../src/region/client/choose-region.ts";
import { createMovingAverages } from "../../../src/region/client/moving-averages.ts";
import { estimateRoundTripMs } from "../../../src/region/client/round-trip-estimate.ts";

const frankfurt = { latitudeDegrees: 50.11, longitudeDegrees: 8.68 };
const virginia = { latitudeDegrees: 38.95, longitudeDegrees: -77.45 };

/** A generator whose sequence is the same each time. */
function createRandom() {
  let state = 1;
  return () => (state = (state * 48_271) % 2_147_483_647) / 2_147_483_647;
}

describe("the choice of a region", () => {
  const random = createRandom();
  const sharesOf = (
    regions: readonly { readonly expectedMs: number; readonly inFlight: number }[],
  ) => {
    const counts = regions.map(() => 0);
    for (let draw = 0; draw < 3_000; draw++) {
      const chosen = chooseRegion(regions, random);
      counts.forEach(
        (_, index) => (counts[index] = (counts[index] ?? 0) + (regions[index] === chosen ? 1 : 0)),
      );
    }
    return counts.map((count) => count / 3_000);
  };

  it("is none of none, and the only one", () => {
    expect(chooseRegion([], random)).toBeUndefined();
    expect(sharesOf([{ expectedMs: 900, inFlight: 50 }])).toEqual([1]);
  });

  it("never falls on one far away while a near one is well", () => {
    expect(
      sharesOf([
        { expectedMs: 20, inFlight: 30 },
        { expectedMs: 120, inFlight: 0 },
      ]),
    ).toEqual([1, 0]);
  });

  it("is the better one of two random ones: of three about as good, the worst is never taken and the best in two cases of three", () => {
    const [best, middle, worst] = sharesOf([
      { expectedMs: 20, inFlight: 0 },
      { expectedMs: 22, inFlight: 0 },
      { expectedMs: 24, inFlight: 0 },
    ]);
    expect(best).toBeCloseTo(2 / 3, 1);
    expect(middle).toBeCloseTo(1 / 3, 1);
    expect(worst).toBe(0);
  });

  it("minds what is under way to each", () => {
    expect(
      sharesOf([
        { expectedMs: 20, inFlight: 3 },
        { expectedMs: 25, inFlight: 0 },
      ]),
    ).toEqual([0, 1]);
  });
});

describe("distance", () => {
  it("is the great circle's, also across the date line and between antipodes", () => {
    expect(greatCircleDistanceKm(frankfurt, virginia)).toBeGreaterThan(6_450);
    expect(greatCircleDistanceKm(frankfurt, virginia)).toBeLessThan(6_650);
    expect(greatCircleDistanceKm(frankfurt, frankfurt)).toBe(0);
    expect(
      greatCircleDistanceKm(
        { latitudeDegrees: 0, longitudeDegrees: 179 },
        { latitudeDegrees: 0, longitudeDegrees: -179 },
      ),
    ).toBeCloseTo(222.4, 0);
    expect(
      greatCircleDistanceKm(
        { latitudeDegrees: 0, longitudeDegrees: 0 },
        { latitudeDegrees: 0, longitudeDegrees: 180 },
      ),
    ).toBeCloseTo(20_015, 0);
  });

  it("is the first word on how long the way takes, where both places are known", () => {
    expect(estimateRoundTripMs(frankfurt, virginia)).toBeGreaterThan(110);
    expect(estimateRoundTripMs(frankfurt, virginia)).toBeLessThan(130);
    expect([
      estimateRoundTripMs(frankfurt, frankfurt),
      estimateRoundTripMs(undefined, frankfurt),
      estimateRoundTripMs(frankfurt, undefined),
    ]).toEqual([2, 50, 50]);
  });
});

describe("the mean of late", () => {
  it("is hardly moved by one slow call, follows what lasts, and gives way to what is expected", () => {
    const clock = new ManualClock();
    const means = createMovingAverages(clock);
    expect(means.meanMs("a", 33)).toBe(33);
    for (let call = 0; call < 50; call++) means.record("a", 20);
    means.record("a", 1_000);
    expect(means.meanMs("a", 33)).toBeLessThan(30);
    for (let call = 0; call < 50; call++) means.record("a", 200);
    expect(means.meanMs("a", 33)).toBeGreaterThan(190);
    expect(means.meanMs("b", 33)).toBe(33);
    clock.advance(100_000);
    expect(means.meanMs("a", 33)).toBeCloseTo(33, 0);
  });
});
