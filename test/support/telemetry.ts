// Metrics as the Worker has them, with an aggregator in the same isolate. No imports from Node: suites in workerd use it too.
import type { Clock } from "../../src/core/clock.ts";
import { createAggregate } from "../../src/telemetry/aggregate.ts";
import { EDGE_METRICS, type MetricName } from "../../src/telemetry/edge-metrics.ts";
import { createRecorder } from "../../src/telemetry/recorder.ts";
import { createReporter } from "../../src/telemetry/reporter.ts";
import { eventsIn } from "../../src/telemetry/series.ts";
import type { Telemetry } from "../../src/telemetry/telemetry.ts";

export interface TelemetryUnderTest extends Telemetry {
  /** The labels of what was counted so far, once for each event, by series. */
  counted(name: MetricName): Readonly<Record<string, string>>[];
  /** Batches that were sent. */
  reported(): number;
  /** From now on nothing reaches the aggregator. */
  loseAggregator(): void;
}

export function startTelemetryUnderTest(clock: Clock): TelemetryUnderTest {
  const recorder = createRecorder({ clock, maxSeries: 1_000 });
  const aggregate = createAggregate(1_000);
  let reported = 0;
  let isLost = false;
  const reach = () => {
    if (isLost) throw new Error("the aggregator is away");
  };
  const reporter = createReporter({
    recorder,
    clock,
    isolate: "under test",
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
    async read() {
      reach();
      return aggregate.series();
    },
    reported: () => reported,
    loseAggregator: () => {
      isLost = true;
    },
    counted(name) {
      aggregate.accept(
        { isolate: "looked at", sequence: ++looks, series: recorder.take(Infinity) },
        clock.now(),
      );
      const labelsOf = (values: readonly string[]) =>
        Object.fromEntries(
          EDGE_METRICS[name].labels.map((label, index) => [label, values[index] ?? ""]),
        );
      return aggregate
        .series()
        .flatMap((series) =>
          series.name === name
            ? Array.from({ length: eventsIn(series) }, () => labelsOf(series.labels))
            : [],
        );
    },
  };
}
