// Live panel: differences, quantiles and rates of metric snapshots.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  sumByLabel,
  subtractSnapshots,
  mergeHistograms,
  histogramQuantile,
  sumValues,
} from "../../src/playground/live/metric-deltas.ts";
import {
  createSnapshotHistory,
  CACHE_SERIES_NAME,
} from "../../src/playground/live/snapshot-history.ts";
import {
  metricsSnapshotSchema,
  type MetricsSnapshot,
} from "../../src/protocol/metrics-snapshot.ts";

const answers = (value: number, tier = "edge") => ({
  kind: "counter" as const,
  name: "edgetier_answers_total",
  labels: { model: "m", version: "1", tier, degraded_by: "" },
  value,
});
const durations = (counts: number[], route = "predict") => ({
  kind: "histogram" as const,
  name: "edgetier_request_duration_seconds",
  labels: { route, model: "m" },
  buckets: [0.1, 0.2],
  counts,
  sum: 0,
});
const hits = (value: number, result: string) => ({
  kind: "counter" as const,
  name: "edgetier_cache_results_total",
  labels: { model: "m", result },
  value,
});
const snapshot = (takenAtMs: number, ...series: MetricsSnapshot["series"]): MetricsSnapshot =>
  metricsSnapshotSchema.parse({ takenAtMs, series });

describe("the difference of two snapshots", () => {
  it("contains the events in between, including new series", () => {
    const delta = subtractSnapshots(
      snapshot(0, answers(3), durations([1, 0, 0])),
      snapshot(1, answers(5), answers(2, "region"), durations([1, 4, 1])),
    );
    expect(sumByLabel(delta, "edgetier_answers_total", "tier")).toEqual(
      new Map([
        ["edge", 2],
        ["region", 2],
      ]),
    );
    expect(mergeHistograms(delta, "edgetier_request_duration_seconds")?.counts).toEqual([0, 4, 1]);
  });

  it("is the whole value after a counter reset", () => {
    const delta = subtractSnapshots(
      snapshot(0, answers(9), durations([9, 0, 0])),
      snapshot(1, answers(2), durations([1, 0, 0])),
    );
    expect(sumValues(sumByLabel(delta, "edgetier_answers_total", "tier"))).toBe(2);
    expect(mergeHistograms(delta, "edgetier_request_duration_seconds")?.counts).toEqual([1, 0, 0]);
  });

  it("is additive over a series of snapshots", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(1_000), { minLength: 2 }), (steps) => {
        let value = 0;
        const snapshots = steps.map((step, index) => snapshot(index, answers((value += step))));
        const deltas = snapshots
          .slice(1)
          .map((after, index) =>
            sumValues(
              sumByLabel(
                subtractSnapshots(snapshots[index] ?? after, after),
                "edgetier_answers_total",
                "tier",
              ),
            ),
          );
        expect(deltas.reduce((sum, delta) => sum + delta, 0)).toBe(value - (steps[0] ?? 0));
      }),
    );
  });
});

describe("quantiles", () => {
  it("interpolate within a bucket, over all matching series", () => {
    const both = mergeHistograms(
      snapshot(0, durations([10, 0, 0]), durations([0, 10, 0], "infer")),
      "edgetier_request_duration_seconds",
      { model: "m" },
    );
    expect(
      both && {
        p25: histogramQuantile(both, 0.25),
        p50: histogramQuantile(both, 0.5),
        p75: histogramQuantile(both, 0.75),
      },
    ).toEqual({ p25: 0.05, p50: 0.1, p75: expect.closeTo(0.15, 9) });
    expect(mergeHistograms(snapshot(0), "edgetier_request_duration_seconds")).toBeUndefined();
  });

  it("are the largest bound for values above it, and undefined without values", () => {
    expect(histogramQuantile({ buckets: [0.1, 0.2], counts: [0, 0, 4] }, 0.5)).toBe(0.2);
    expect(histogramQuantile({ buckets: [0.1, 0.2], counts: [0, 0, 0] }, 0.5)).toBeUndefined();
  });
});

describe("the history", () => {
  it("has rates between polls, including cached outputs", () => {
    const history = createSnapshotHistory();
    for (const { takenAtMs, value } of [
      { takenAtMs: 1_000, value: 10 },
      { takenAtMs: 3_000, value: 14 },
    ])
      history.add(
        snapshot(
          takenAtMs,
          answers(value),
          hits(value, "l1"),
          hits(2 * value, "l2"),
          hits(99, "miss"),
        ),
      );
    expect(history.computeRates().map(({ perSecond }) => perSecond)).toEqual([
      new Map([
        ["edge", 2],
        [CACHE_SERIES_NAME, 6],
      ]),
    ]);
  });

  it("covers the last minute, and drops older and late snapshots", () => {
    const history = createSnapshotHistory();
    for (let second = 0; second <= 200; second += 2)
      history.add(snapshot(1_000 * (second + 1), answers(second)));
    expect(
      sumValues(
        sumByLabel(history.computeLastMinute() ?? snapshot(0), "edgetier_answers_total", "tier"),
      ),
    ).toBe(60);
    expect(history.computeRates()).toHaveLength(30);
    history.add(snapshot(5, answers(1))); // This one is late.
    expect(history.latest?.takenAtMs).toBe(201_000);
  });
});
