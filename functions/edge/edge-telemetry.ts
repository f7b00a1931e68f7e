// This isolate's metrics, as the configuration has them.

import type { Clock } from "../../src/core/clock.ts";
import { reasonOf } from "../../src/core/errors.ts";
import type { MetricsConfig } from "../../src/http/metrics-config.ts";
import { mergeSeries } from "../../src/telemetry/metrics-aggregate.ts";
import { writeDataPoints } from "../../src/telemetry/analytics-engine.ts";
import { createMetricsRecorder } from "../../src/telemetry/metrics-recorder.ts";
import { createMetricsReporter } from "../../src/telemetry/metrics-reporter.ts";
import type { Telemetry } from "../../src/telemetry/telemetry.ts";

/** Of an isolate: some 300 bytes each. */
const MAX_SERIES = 2_000;

/** @returns undefined where nobody takes what is counted: then it costs nothing */
export function createEdgeTelemetry(
  config: MetricsConfig,
  {
    clock,
    log,
  }: { readonly clock: Clock; readonly log: (record: Readonly<Record<string, unknown>>) => void },
): Telemetry | undefined {
  const {
    EDGETIER_METRICS: aggregators,
    EDGETIER_ANALYTICS: analytics,
    EDGETIER_METRICS_SHARDS: shards,
  } = config;
  if (aggregators === undefined && analytics === undefined) return undefined;
  const recorder = createMetricsRecorder({ clock, maxSeries: MAX_SERIES });
  recorder.count("edgetier_isolates_started_total", {});
  const own = shardName(Math.floor(Math.random() * shards));
  const reporter = createMetricsReporter({
    recorder,
    clock,
    isolateId: crypto.randomUUID(),
    intervalMs: config.EDGETIER_METRICS_INTERVAL_MS,
    send: aggregators && ((batch) => aggregators.getByName(own).report(batch)),
    onBatch: analytics && ((batch) => writeDataPoints(analytics, batch)),
    onFailure: (error) => log({ level: "warn", event: "metrics_unsent", cause: reasonOf(error) }),
  });
  const read =
    aggregators &&
    (async () =>
      mergeSeries(
        await Promise.all(
          Array.from({ length: shards }, (_, shard) =>
            aggregators.getByName(shardName(shard)).read(),
          ),
        ),
      ));
  return { metrics: recorder, reporter, readSeries: read };
}

const shardName = (shard: number): string => `shard-${shard}`;
