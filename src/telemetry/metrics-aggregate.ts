// Metrics aggregate: the sum of all batches that an aggregator received, each added once. It is independent of storage
// and platform.

import {
  createSeriesTable,
  countEvents,
  type SeriesRejection,
  type Series,
} from "./series-table.ts";

/** Deltas that one isolate counted during an interval. JSON field names are shared with older deployments. */
export interface MetricsBatch {
  /** Random id of the isolate. */
  readonly isolate: string;
  /** Starts at 1. An isolate sends the next batch only after this one was confirmed or discarded. */
  readonly sequence: number;
  readonly series: readonly Series[];
}

/** Serializable state. */
export interface MetricsAggregateState {
  readonly isolates: readonly (readonly [isolate: string, lastSequence: number, atMs: number])[];
  readonly series: readonly Series[];
}

export interface MetricsAggregate {
  /** Adds a batch, unless it was added before. */
  accept(batch: MetricsBatch, nowMs: number): void;
  listSeries(): Series[];
  exportState(): MetricsAggregateState;
}

/** Longer than MAX_BATCH_AGE_MS of metrics-reporter.ts, after which an isolate discards a batch. */
const ISOLATE_RETENTION_MS = 3_600_000;
const MAX_ISOLATES = 20_000;
/** Retention of unchanged series, such as those of versions that are no longer served. */
const SERIES_RETENTION_MS = 7 * 86_400_000;

export function createMetricsAggregate(
  maxSeries: number,
  saved?: MetricsAggregateState,
): MetricsAggregate {
  const table = createSeriesTable(maxSeries);
  /** Ordered by the time of the last batch, oldest first. */
  const isolates = new Map(
    (saved?.isolates ?? []).map(([isolate, sequence, atMs]) => [isolate, { sequence, atMs }]),
  );
  for (const series of saved?.series ?? []) table.merge(series);

  function recordDrop(reason: SeriesRejection, series: Series): void {
    table.record("edgetier_telemetry_dropped_total", [reason], countEvents(series), series.atMs);
  }

  function add(series: Series, nowMs: number): void {
    let rejection = table.merge(series);
    if (rejection === "full") {
      table.evictUnchangedSince(nowMs - SERIES_RETENTION_MS);
      rejection = table.merge(series);
    }
    if (rejection !== undefined) recordDrop(rejection, series);
  }

  function evictIsolates(nowMs: number): void {
    for (const [isolate, { atMs }] of isolates) {
      if (isolates.size <= MAX_ISOLATES && atMs > nowMs - ISOLATE_RETENTION_MS) return;
      isolates.delete(isolate);
    }
  }

  return {
    accept({ isolate, sequence, series }, nowMs) {
      if (sequence <= (isolates.get(isolate)?.sequence ?? 0)) return;
      isolates.delete(isolate); // Moves the isolate to the end of the order.
      isolates.set(isolate, { sequence, atMs: nowMs });
      evictIsolates(nowMs);
      for (const entry of series) add(entry, nowMs);
    },
    listSeries: table.list,
    exportState: () => ({
      isolates: [...isolates].map(
        ([isolate, { sequence, atMs }]) => [isolate, sequence, atMs] as const,
      ),
      series: table.list(),
    }),
  };
}

/** Merges the series of several aggregators. */
export function mergeSeries(shards: readonly (readonly Series[])[]): Series[] {
  const table = createSeriesTable(Infinity);
  for (const series of shards.flat()) table.merge(series);
  return table.list();
}
