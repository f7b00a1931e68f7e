// What happened between two snapshots of the edge's metrics, and figures of it. Counts only grow; where one is smaller than before, the
// counting began anew, and all of it happened since.

import type { MetricsSnapshot } from "../../protocol/metrics-snapshot.ts";
import type { MetricName } from "../../telemetry/edge-metric-definitions.ts";

type Series = MetricsSnapshot["series"][number];
type Histogram = Extract<Series, { readonly kind: "histogram" }>;
export type Labels = Readonly<Record<string, string>>;

const seriesKeyOf = ({ name, labels }: Series): string =>
  `${name}${JSON.stringify(Object.entries(labels).toSorted(([a], [b]) => (a < b ? -1 : 1)))}`;

/** Gauges are as they are in `after`. */
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
  counts.reduce((sum, one) => sum + one, 0);

/** By the value of a label, summed over all others. */
export function sumByLabel(
  { series }: MetricsSnapshot,
  name: MetricName,
  label: string,
  where: Labels = {},
): Map<string, number> {
  const counts = new Map<string, number>();
  for (const one of series) {
    if (one.name !== name || !matchesLabels(one.labels, where)) continue;
    const key = one.labels[label] ?? "";
    counts.set(
      key,
      (counts.get(key) ?? 0) + (one.kind === "histogram" ? observationCount(one) : one.value),
    );
  }
  return counts;
}

export const sumValues = (counts: ReadonlyMap<string, number>): number =>
  [...counts.values()].reduce((sum, one) => sum + one, 0);

/** All that match, as one; undefined where there is none. */
export function mergeHistograms(
  { series }: MetricsSnapshot,
  name: MetricName,
  where: Labels = {},
): Histogram | undefined {
  const all = series.filter(
    (one): one is Histogram =>
      one.kind === "histogram" && one.name === name && matchesLabels(one.labels, where),
  );
  const [first] = all;
  return (
    first && {
      ...first,
      labels: where,
      counts: first.counts.map((_, bucket) =>
        all.reduce((sum, { counts }) => sum + (counts[bucket] ?? 0), 0),
      ),
      sum: all.reduce((sum, one) => sum + one.sum, 0),
    }
  );
}

const matchesLabels = (labels: Labels, where: Labels): boolean =>
  Object.entries(where).every(([name, value]) => labels[name] === value);

/** As Prometheus' histogram_quantile: evenly spread within its bucket; the largest bound for what is above all of them. */
export function histogramQuantile(
  { buckets, counts }: Pick<Histogram, "buckets" | "counts">,
  share: number,
): number | undefined {
  const rank = share * observationCount({ counts });
  if (rank === 0) return undefined;
  let below = 0;
  for (const [index, bound] of buckets.entries()) {
    const own = counts[index] ?? 0;
    const from = buckets[index - 1] ?? 0;
    if (below + own >= rank)
      return own === 0 ? from : from + ((bound - from) * (rank - below)) / own;
    below += own;
  }
  return buckets.at(-1);
}
