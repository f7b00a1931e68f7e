// Telemetry under test: the Worker's metrics with an aggregator in the same isolate. No imports from Node: suites in workerd use it too.
import type { Clock } from "../../src/core/clock.ts";
import { EDGE_METRICS, type MetricName } from "../../src/telemetry/edge-metric-definitions.ts";
import { createMetricsAggregate } from "../../src/telemetry/metrics-aggregate.ts";
import { createMetricsRecorder } from "../../src/telemetry/metrics-recorder.ts";
import { createMetricsReporter } from "../../src/telemetry/metrics-reporter.ts";
import { countEvents } from "../../src/telemetry/series-table.ts";
import type { Telemetry } from "../../src/telemetry/telemetry.ts";

export interface TelemetryUnderTest extends Telemetry {
  /** Returns the labels of each counted event, by series. */
  readCountedLabels(name: MetricName): Readonly<Record<string, string>>[];
  /** Returns the number of batches that the aggregator has accepted. */
  countReportedBatches(): number;
  /** Makes every later call of the aggregator fail. */
  disconnectAggregator(): void;
}

export function startTelemetryUnderTest(clock: Clock): TelemetryUnderTest {
  const recorder = createMetricsRecorder({ clock, maxSeries: 1_000 });
  const aggregate = createMetricsAggregate(1_000);
  let reportedBatches = 0;
  let isDisconnected = false;
  const assertConnected = () => {
    if (isDisconnected) throw new Error("the aggregator is disconnected");
  };
  const reporter = createMetricsReporter({
    recorder,
    clock,
    isolateId: "under test",
    intervalMs: 1_000,
    async send(batch) {
      assertConnected();
      reportedBatches++;
      aggregate.accept(batch, clock.now());
    },
  });
  let readCount = 0;
  return {
    metrics: recorder,
    reporter,
    async readSeries() {
      assertConnected();
      return aggregate.listSeries();
    },
    countReportedBatches: () => reportedBatches,
    disconnectAggregator: () => {
      isDisconnected = true;
    },
    readCountedLabels(name) {
      aggregate.accept(
        { isolate: "read by the test", sequence: ++readCount, series: recorder.drain(Infinity) },
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
