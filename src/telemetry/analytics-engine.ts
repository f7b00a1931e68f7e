// Analytics Engine sink: writes metric batches as data points. Workers Analytics Engine stores them for three months and
// answers SQL queries.
//
// Each series of a batch is one point, not each request. Points are billed, sampled at high volume, and limited to 250
// per request, which is also the maximum size of a batch. The number of points therefore follows the number of isolates.
// Sums are exact until sampling begins; from then on each point counts `_sample_interval` times.
//
// Fields of a point: `index1` and `blob1` are the name of the metric. Later blobs are its label values, in the order of
// edge-metric-definitions.ts. The field `double1` depends on the kind: the increment of a counter, the value of a gauge, or
// the number of observations of a histogram. A histogram also has its sum in `double2` and its buckets in `double3` to
// `double20`.

import type { MetricsBatch } from "./metrics-aggregate.ts";
import { countEvents, type Series } from "./series-table.ts";

/** Binding of a dataset. It neither waits nor throws, even for an invalid point. */
export interface AnalyticsEngineDataset {
  writeDataPoint(point: {
    readonly indexes: readonly string[];
    readonly blobs: readonly string[];
    readonly doubles: readonly number[];
  }): void;
}

/** Maximum number of `doubles` of a data point. */
export const MAX_DATA_POINT_DOUBLES = 20;

export function writeDataPoints(
  dataset: AnalyticsEngineDataset,
  { series }: Pick<MetricsBatch, "series">,
): void {
  for (const entry of series)
    dataset.writeDataPoint({
      indexes: [entry.name],
      blobs: [entry.name, ...entry.labels],
      doubles: listDoubles(entry),
    });
}

function listDoubles(series: Series): number[] {
  return series.kind === "histogram"
    ? [countEvents(series), series.sum, ...series.counts]
    : [series.value];
}
