// Batches as data points of Workers Analytics Engine, which keeps them for three months and answers SQL.
//
// One point for each series of a batch, not one for each request: points are billed, sampled when there are many, and limited to 250 of
// one request, which is what a batch holds at most. So their number follows the isolates, and sums over them are exact until sampling
// begins; then each counts `_sample_interval` times.
//
// index1 is the metric's name, blob1 too; blob2 and so on are the values of its labels in the order of edge-metric-definitions.ts. double1 is what
// was added (a gauge's value; how often a histogram observed), double2 a histogram's sum, double3 to double20 the counts of its buckets.

import type { MetricsBatch } from "./metrics-aggregate.ts";
import { countEvents, type Series } from "./series-table.ts";

/** The binding; it neither waits nor throws for what it cannot take. */
export interface AnalyticsEngineDataset {
  writeDataPoint(point: {
    readonly indexes: readonly string[];
    readonly blobs: readonly string[];
    readonly doubles: readonly number[];
  }): void;
}

/** Of a data point. */
export const MAX_DATA_POINT_DOUBLES = 20;

export function writeDataPoints(
  dataset: AnalyticsEngineDataset,
  { series }: Pick<MetricsBatch, "series">,
): void {
  for (const one of series)
    dataset.writeDataPoint({
      indexes: [one.name],
      blobs: [one.name, ...one.labels],
      doubles: doublesOf(one),
    });
}

function doublesOf(series: Series): number[] {
  return series.kind === "histogram"
    ? [countEvents(series), series.sum, ...series.counts]
    : [series.value];
}
