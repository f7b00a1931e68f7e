// The choice of a region, and the distances and latency averages that it uses.
import { describe, expect, it } from "vitest";
import { ManualClock } from "../../../src/core/clock.ts";
import { greatCircleDistanceKm } from "../../../src/core/geo.ts";
import { chooseRegion } from "../../../src/region/client/choose-region.ts";
import { createMovingAverages } from "../../../src/region/client/moving-averages.ts";
import { estimateRoundTripMs } from "../../../src/region/client/round-trip-estimate.ts";

const frankfurt = { latitudeDegrees: 50.11, longitudeDegrees: 8.68 };
const virginia = { latitudeDegrees: 38.95, longitudeDegrees: -77.45 };

/** Creates a generator of a fixed sequence. */
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

  it("is undefined without regions, and the only region of one", () => {
    expect(chooseRegion([], random)).toBeUndefined();
    expect(sharesOf([{ expectedMs: 900, inFlight: 50 }])).toEqual([1]);
  });

  it("is never a distant region while a near one responds normally", () => {
    expect(
      sharesOf([
        { expectedMs: 20, inFlight: 30 },
        { expectedMs: 120, inFlight: 0 },
      ]),
    ).toEqual([1, 0]);
  });

  it("is the better of two random regions: of three similar ones the best in two thirds of the draws, the worst never", () => {
    const [best, middle, worst] = sharesOf([
      { expectedMs: 20, inFlight: 0 },
      { expectedMs: 22, inFlight: 0 },
      { expectedMs: 24, inFlight: 0 },
    ]);
    expect(best).toBeCloseTo(2 / 3, 1);
    expect(middle).toBeCloseTo(1 / 3, 1);
    expect(worst).toBe(0);
  });

  it("accounts for the calls in flight to each region", () => {
    expect(
      sharesOf([
        { expectedMs: 20, inFlight: 3 },
        { expectedMs: 25, inFlight: 0 },
      ]),
    ).toEqual([0, 1]);
  });
});

describe("the distance between two places", () => {
  it("is that of the great circle, even across the date line and between antipodes", () => {
    expect(greatCircleDistanceKm(frankfurt, virginia)).toBeGreaterThan(6_450);
    expect(greatCircleDistanceKm(frankfurt, virginia)).toBeLessThan(6_650);
    expect(greatCircleDistanceKm(frankfurt, frankfurt)).toBe(0);
    expect(
      greatCircleDistanceKm(
        { latitudeDegrees: 0, longitudeDegrees: 179 },
        { latitudeDegrees: 0, longitudeDegrees: -179 },
      ),
    ).toBeCloseTo(222.4, 1);
    expect(
      greatCircleDistanceKm(
        { latitudeDegrees: 0, longitudeDegrees: 0 },
        { latitudeDegrees: 0, longitudeDegrees: 180 },
      ),
    ).toBeCloseTo(20_015.1, 1);
  });

  it("is the initial estimate of the round trip if both places are known", () => {
    expect(estimateRoundTripMs(frankfurt, virginia)).toBeGreaterThan(110);
    expect(estimateRoundTripMs(frankfurt, virginia)).toBeLessThan(130);
    expect(estimateRoundTripMs(frankfurt, frankfurt)).toBe(2);
    expect(estimateRoundTripMs(undefined, frankfurt)).toBe(50);
    expect(estimateRoundTripMs(frankfurt, undefined)).toBe(50);
  });
});

describe("a moving average of latencies", () => {
  it("resists one slow call, follows a lasting change, and decays to the expected latency", () => {
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
    expect(means.meanMs("a", 33)).toBeGreaterThan(33);
    expect(means.meanMs("a", 33)).toBeLessThan(33.1);
  });
});
