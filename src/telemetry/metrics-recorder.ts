// Metrics recorder: counts deltas in an isolate's memory until they are reported. The number of series is bounded.

import {
  type CounterName,
  EDGE_METRICS,
  type GaugeName,
  type HistogramName,
  type LabelsOf,
  type MetricName,
} from "./edge-metric-definitions.ts";
import { createSeriesTable, type Series } from "./series-table.ts";

/** Recording port. Its methods never throw and do no I/O. */
export interface EdgeMetrics {
  count<Name extends CounterName>(name: Name, labels: LabelsOf<Name>, by?: number): void;
  /** @param value in the unit at the end of the name */
  observe<Name extends HistogramName>(name: Name, labels: LabelsOf<Name>, value: number): void;
  setGauge<Name extends GaugeName>(name: Name, labels: LabelsOf<Name>, value: number): void;
}

export interface MetricsRecorder extends EdgeMetrics {
  /** Number of series with values. */
  readonly seriesCount: number;
  /** Removes and returns the oldest series. */
  drain(maxSeries: number): Series[];
}

/** Discards everything. */
export const NOOP_METRICS: EdgeMetrics = { count() {}, observe() {}, setGauge() {} };

export interface MetricsRecorderOptions {
  readonly clock: { now(): number };
  /** Events of further series are counted as dropped. */
  readonly maxSeries: number;
}

export function createMetricsRecorder({
  clock,
  maxSeries,
}: MetricsRecorderOptions): MetricsRecorder {
  const table = createSeriesTable(maxSeries);

  function record(name: MetricName, labels: Readonly<Record<string, string>>, value: number): void {
    const names: readonly string[] = EDGE_METRICS[name].labels;
    const values = names.map((label) => labels[label] ?? "");
    if (!table.record(name, values, value, clock.now()))
      table.record("edgetier_telemetry_dropped_total", ["full"], 1, clock.now());
  }

  return {
    count: (name, labels, by = 1) => record(name, labels, by),
    observe: record,
    setGauge: record,
    get seriesCount() {
      return table.size;
    },
    drain: table.drain,
  };
}
