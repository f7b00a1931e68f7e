// What an isolate counts, until it is reported: deltas in memory, bounded in series.

import {
  type CounterName,
  EDGE_METRICS,
  type GaugeName,
  type HistogramName,
  type LabelsOf,
  type MetricName,
} from "./edge-metric-definitions.ts";
import { createSeriesTable, type Series } from "./series-table.ts";

/** Never throws, and nothing waits for it. */
export interface EdgeMetrics {
  count<Name extends CounterName>(name: Name, labels: LabelsOf<Name>, by?: number): void;
  /** @param value in the unit that the name ends with */
  observe<Name extends HistogramName>(name: Name, labels: LabelsOf<Name>, value: number): void;
  setGauge<Name extends GaugeName>(name: Name, labels: LabelsOf<Name>, value: number): void;
}

export interface MetricsRecorder extends EdgeMetrics {
  /** Series with something in them. */
  readonly seriesCount: number;
  /** The `most` that were begun first; they are empty again. */
  drain(most: number): Series[];
}

/** For where nobody takes them. */
export const NOOP_METRICS: EdgeMetrics = { count() {}, observe() {}, setGauge() {} };

export interface MetricsRecorderOptions {
  readonly clock: { now(): number };
  /** What is recorded beyond them is counted as dropped. */
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
