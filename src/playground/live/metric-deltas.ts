// Metric deltas: differences of two metric snapshots, and statistics of them. Counters only grow. If one is smaller than
// before, it was reset, and its whole value is new.

import type { MetricsSnapshot } from "../../protocol/metrics-snapshot.ts";
import type { MetricName } from "../../telemetry/edge-metric-definitions.ts";

type Series = MetricsSnapshot["series"][number];
type Histogram = Extract<Series, { readonly kind: "histogram" }>;
export type Labels = Readonly<Record<string, string>>;

const seriesKeyOf = ({ name, labels }: Series): string =>
  `${name}${JSON.stringify(Object.entries(labels).toSorted(([a], [b]) => (a < b ? -1 : 1)))}`;

/** Gauges keep their value of `after`. */
export function subtractSnapshots(
  before: MetricsSnapshot,
  after: MetricsSnapshot,
): MetricsSnapshot {
  const earlier = new Map(before.series.map((series) => [seriesKeyOf(series), series]));
  return {
    ...after,
    series: after.series.map((series) => subtractSeries(earlier.get(seriesKeyOf(series)), series)),
  };
}

function subtractSeries(before: Series | undefined, after: Series): Series {
  if (before === undefined || after.kind === "gauge") return after;
  if (after.kind === "histogram") {
    if (before.kind !== "histogram" || observationCount(before) > observationCount(after))
      return after;
    return {
      ...after,
      counts: after.counts.map((count, index) => count - (before.counts[index] ?? 0)),
      sum: after.sum - before.sum,
    };
  }
  return before.kind === "histogram" || before.value > after.value
    ? after
    : { ...after, value: after.value - before.value };
}

export const observationCount = ({ counts }: Pick<Histogram, "counts">): number =>
  counts.reduce((sum, count) => sum + count, 0);

/** Sums by the values of `label`, over all other labels. */
export function sumByLabel(
  { series }: MetricsSnapshot,
  name: MetricName,
  label: string,
  where: Labels = {},
): Map<string, number> {
  const counts = new Map<string, number>();
  for (const entry of series) {
    if (entry.name !== name || !matchesLabels(entry.labels, where)) continue;
    const key = entry.labels[label] ?? "";
    counts.set(
      key,
      (counts.get(key) ?? 0) + (entry.kind === "histogram" ? observationCount(entry) : entry.value),
    );
  }
  return counts;
}

export const sumValues = (counts: ReadonlyMap<string, number>): number =>
  [...counts.values()].reduce((sum, count) => sum + count, 0);

/** @returns undefined if no series matches */
export function mergeHistograms(
  { series }: MetricsSnapshot,
  name: MetricName,
  where: Labels = {},
): Histogram | undefined {
  const matching = series.filter(
    (entry): entry is Histogram =>
      entry.kind === "histogram" && entry.name === name && matchesLabels(entry.labels, where),
  );
  const [first] = matching;
  return (
    first && {
      ...first,
      labels: where,
      counts: first.counts.map((_, bucket) =>
        matching.reduce((sum, { counts }) => sum + (counts[bucket] ?? 0), 0),
      ),
      sum: matching.reduce((sum, histogram) => sum + histogram.sum, 0),
    }
  );
}

const matchesLabels = (labels: Labels, where: Labels): boolean =>
  Object.entries(where).every(([name, value]) => labels[name] === value);

/**
 * Computes a quantile like Prometheus' `histogram_quantile`. Values are evenly spread within a bucket. Above all bounds,
 * the result is the largest bound.
 */
export function histogramQuantile(
  { buckets, counts }: Pick<Histogram, "buckets" | "counts">,
  quantile: number,
): number | undefined {
  const rank = quantile * observationCount({ counts });
  if (rank === 0) return undefined;
  let below = 0;
  for (const [index, bound] of buckets.entries()) {
    const count = counts[index] ?? 0;
    const lowerBound = buckets[index - 1] ?? 0;
    if (below + count >= rank)
      return count === 0
        ? lowerBound
        : lowerBound + ((bound - lowerBound) * (rank - below)) / count;
    below += count;
  }
  return buckets.at(-1);
}
