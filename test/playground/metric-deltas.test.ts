// What the live panel reckons from snapshots of the edge's metrics.
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
  it("is what was counted between them, with series that are new", () => {
    const happened = subtractSnapshots(
      snapshot(0, answers(3), durations([1, 0, 0])),
      snapshot(1, answers(5), answers(2, "region"), durations([1, 4, 1])),
    );
    expect(sumByLabel(happened, "edgetier_answers_total", "tier")).toEqual(
      new Map([
        ["edge", 2],
        ["region", 2],
      ]),
    );
    expect(mergeHistograms(happened, "edgetier_request_duration_seconds")?.counts).toEqual([
      0, 4, 1,
    ]);
  });

  it("is all of it where the counting began anew", () => {
    const happened = subtractSnapshots(
      snapshot(0, answers(9), durations([9, 0, 0])),
      snapshot(1, answers(2), durations([1, 0, 0])),
    );
    expect(sumValues(sumByLabel(happened, "edgetier_answers_total", "tier"))).toBe(2);
    expect(mergeHistograms(happened, "edgetier_request_duration_seconds")?.counts).toEqual([
      1, 0, 0,
    ]);
  });

  it("adds up: from the first to the last it is the sum of all between", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(1_000), { minLength: 2 }), (steps) => {
        let value = 0;
        const all = steps.map((step, index) => snapshot(index, answers((value += step))));
        const between = all
          .slice(1)
          .map((after, index) =>
            sumValues(
              sumByLabel(
                subtractSnapshots(all[index] ?? after, after),
                "edgetier_answers_total",
                "tier",
              ),
            ),
          );
        expect(between.reduce((sum, one) => sum + one, 0)).toBe(value - (steps[0] ?? 0));
      }),
    );
  });
});

describe("quantiles", () => {
  it("are spread evenly within a bucket, over all series that match", () => {
    const both = mergeHistograms(
      snapshot(0, durations([10, 0, 0]), durations([0, 10, 0], "infer")),
      "edgetier_request_duration_seconds",
      { model: "m" },
    );
    expect(
      both && [
        histogramQuantile(both, 0.25),
        histogramQuantile(both, 0.5),
        histogramQuantile(both, 0.75),
      ],
    ).toEqual([0.05, 0.1, expect.closeTo(0.15)]);
    expect(mergeHistograms(snapshot(0), "edgetier_request_duration_seconds")).toBeUndefined();
  });

  it("are the largest bound where all is above it, and none of nothing", () => {
    expect(histogramQuantile({ buckets: [0.1, 0.2], counts: [0, 0, 4] }, 0.5)).toBe(0.2);
    expect(histogramQuantile({ buckets: [0.1, 0.2], counts: [0, 0, 0] }, 0.5)).toBeUndefined();
  });
});

describe("the history", () => {
  it("has rates from poll to poll, with what came from caches", () => {
    const history = createSnapshotHistory();
    for (const [at, value] of [
      [1_000, 10],
      [3_000, 14],
    ] as const)
      history.add(
        snapshot(at, answers(value), hits(value, "l1"), hits(2 * value, "l2"), hits(99, "miss")),
      );
    expect(history.computeRates().map(({ perSecond }) => perSecond)).toEqual([
      new Map([
        ["edge", 2],
        [CACHE_SERIES_NAME, 6],
      ]),
    ]);
  });

  it("knows of the last minute, and forgets what is older than its polls", () => {
    const history = createSnapshotHistory();
    for (let second = 0; second <= 200; second += 2)
      history.add(snapshot(1_000 * (second + 1), answers(second)));
    expect(
      sumValues(
        sumByLabel(history.computeLastMinute() ?? snapshot(0), "edgetier_answers_total", "tier"),
      ),
    ).toBe(60);
    expect(history.computeRates()).toHaveLength(30);
    history.add(snapshot(5, answers(1))); // one that came late
    expect(history.latest?.takenAtMs).toBe(201_000);
  });
});
