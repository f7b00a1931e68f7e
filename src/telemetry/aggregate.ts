// What an aggregator knows: the sum of all batches that it was sent, each taken once. Free of storage and of the platform.

import { createSeriesTable, eventsIn, type Refusal, type Series } from "./series.ts";

/** What one isolate has counted in a while. */
export interface Batch {
  /** A random name, new with each isolate. */
  readonly isolate: string;
  /** From 1; an isolate sends the next one only when this one was taken or given up. */
  readonly sequence: number;
  readonly series: readonly Series[];
}

/** All that has to be kept to go on; JSON holds it. */
export interface AggregateState {
  readonly isolates: readonly (readonly [isolate: string, lastSequence: number, atMs: number])[];
  readonly series: readonly Series[];
}

export interface Aggregate {
  /** Takes a batch, unless it has been taken before. */
  accept(batch: Batch, nowMs: number): void;
  series(): Series[];
  state(): AggregateState;
}

/** An isolate has given a batch up long before (reporter.ts). */
const ISOLATE_REMEMBERED_MS = 3_600_000;
const MAX_ISOLATES = 20_000;
/** Of versions that are served no more. */
const SERIES_REMEMBERED_MS = 7 * 86_400_000;

export function createAggregate(maxSeries: number, saved?: AggregateState): Aggregate {
  const table = createSeriesTable(maxSeries);
  /** The one unheard of for longest first. */
  const isolates = new Map(
    (saved?.isolates ?? []).map(([isolate, sequence, atMs]) => [isolate, { sequence, atMs }]),
  );
  for (const series of saved?.series ?? []) table.merge(series);

  function drop(reason: Refusal, series: Series): void {
    table.record("edgetier_telemetry_dropped_total", [reason], eventsIn(series), series.atMs);
  }

  function add(series: Series, nowMs: number): void {
    let refusal = table.merge(series);
    if (refusal === "full") {
      table.forget(nowMs - SERIES_REMEMBERED_MS);
      refusal = table.merge(series);
    }
    if (refusal !== undefined) drop(refusal, series);
  }

  function forgetIsolates(nowMs: number): void {
    for (const [isolate, { atMs }] of isolates) {
      if (isolates.size <= MAX_ISOLATES && atMs > nowMs - ISOLATE_REMEMBERED_MS) return;
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
    series: table.all,
    state: () => ({
      isolates: [...isolates].map(
        ([isolate, { sequence, atMs }]) => [isolate, sequence, atMs] as const,
      ),
      series: table.all(),
    }),
  };
}

/** Of several aggregators. */
export function mergedSeries(shards: readonly (readonly Series[])[]): Series[] {
  const table = createSeriesTable(Infinity);
  for (const series of shards.flat()) table.merge(series);
  return table.all();
}
