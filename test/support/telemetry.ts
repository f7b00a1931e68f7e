// Metrics as the Worker has them, with an aggregator in the same isolate. No imports from Node: suites in workerd use it too.
import type { Clock } from "../../src/core/clock.ts";
import { createMetricsAggregate } from "../../src/telemetry/metrics-aggregate.ts";
import { EDGE_METRICS, type MetricName } from "../../src/telemetry/edge-metric-definitions.ts";
import { createMetricsRecorder } from "../../src/telemetry/metrics-recorder.ts";
import { createMetricsReporter } from "../../src/telemetry/metrics-reporter.ts";
import { countEvents } from "../../src/telemetry/series-table.ts";
import type { Telemetry } from "../../src/telemetry/telemetry.ts";

export interface TelemetryUnderTest extends Telemetry {
  /** The labels of what was counted so far, once for each event, by series. */
  readCountedLabels(name: MetricName): Readonly<Record<string, string>>[];
  /** Batches that were sent. */
  countReportedBatches(): number;
  /** From now on nothing reaches the aggregator. */
  disconnectAggregator(): void;
}

export function startTelemetryUnderTest(clock: Clock): TelemetryUnderTest {
  const recorder = createMetricsRecorder({ clock, maxSeries: 1_000 });
  const aggregate = createMetricsAggregate(1_000);
  let reported = 0;
  let isLost = false;
  const reach = () => {
    if (isLost) throw new Error("the aggregator is away");
  };
  const reporter = createMetricsReporter({
    recorder,
    clock,
    isolateId: "under test",
    intervalMs: 1_000,
    async send(batch) {
      reach();
      reported++;
      aggregate.accept(batch, clock.now());
    },
  });
  let looks = 0;
  return {
    metrics: recorder,
    reporter,
    async readSeries() {
      reach();
      return aggregate.listSeries();
    },
    countReportedBatches: () => reported,
    disconnectAggregator: () => {
      isLost = true;
    },
    readCountedLabels(name) {
      aggregate.accept(
        { isolate: "looked at", sequence: ++looks, series: recorder.drain(Infinity) },
        clock.now(),
      );
      const labelsOf = (values: readonly string[]) =>
        Object.fromEntries(
          EDGE_METRICS[name].labels.map((label, index) => [label, values[index] ?? ""]),
        );
      return aggregate
        .listSeries()
        .flatMap((series) =>
          series.name === name
            ? Array.from({ length: countEvents(series) }, () => labelsOf(series.labels))
            : [],
        );
    },
  };
}
