// What an aggregator knows: the sum of all batches that it was sent, each taken once. Free of storage and of the platform.

import {
  createSeriesTable,
  countEvents,
  type SeriesRejection,
  type Series,
} from "./series-table.ts";

/** What one isolate has counted in a while. */
export interface MetricsBatch {
  /** A random name, new with each isolate. */
  readonly isolate: string;
  /** From 1; an isolate sends the next one only when this one was taken or given up. */
  readonly sequence: number;
  readonly series: readonly Series[];
}

/** All that has to be kept to go on; JSON holds it. */
export interface MetricsAggregateState {
  readonly isolates: readonly (readonly [isolate: string, lastSequence: number, atMs: number])[];
  readonly series: readonly Series[];
}

export interface MetricsAggregate {
  /** Takes a batch, unless it has been taken before. */
  accept(batch: MetricsBatch, nowMs: number): void;
  listSeries(): Series[];
  exportState(): MetricsAggregateState;
}

/** An isolate has given a batch up long before (metrics-reporter.ts). */
const ISOLATE_RETENTION_MS = 3_600_000;
const MAX_ISOLATES = 20_000;
/** Of versions that are served no more. */
const SERIES_RETENTION_MS = 7 * 86_400_000;

export function createMetricsAggregate(
  maxSeries: number,
  saved?: MetricsAggregateState,
): MetricsAggregate {
  const table = createSeriesTable(maxSeries);
  /** The one unheard of for longest first. */
  const isolates = new Map(
    (saved?.isolates ?? []).map(([isolate, sequence, atMs]) => [isolate, { sequence, atMs }]),
  );
  for (const series of saved?.series ?? []) table.merge(series);

  function drop(reason: SeriesRejection, series: Series): void {
    table.record("edgetier_telemetry_dropped_total", [reason], countEvents(series), series.atMs);
  }

  function add(series: Series, nowMs: number): void {
    let refusal = table.merge(series);
    if (refusal === "full") {
      table.evictUnchangedSince(nowMs - SERIES_RETENTION_MS);
      refusal = table.merge(series);
    }
    if (refusal !== undefined) drop(refusal, series);
  }

  function forgetIsolates(nowMs: number): void {
    for (const [isolate, { atMs }] of isolates) {
      if (isolates.size <= MAX_ISOLATES && atMs > nowMs - ISOLATE_RETENTION_MS) return;
      isolates.delete(isolate);
    }
  }

  return {
    accept({ isolate, sequence, series }, nowMs) {
      if (sequence <= (isolates.get(isolate)?.sequence ?? 0)) return;
      isolates.delete(isolate); // to the end
      isolates.set(isolate, { sequence, atMs: nowMs });
      forgetIsolates(nowMs);
      for (const one of series) add(one, nowMs);
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

/** Of several aggregators. */
export function mergeSeries(shards: readonly (readonly Series[])[]): Series[] {
  const table = createSeriesTable(Infinity);
  for (const series of shards.flat()) table.merge(series);
  return table.list();
}
