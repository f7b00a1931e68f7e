// Edge telemetry: records this isolate's metrics and reports them to the configured aggregator and dataset.

import type { Clock } from "../../src/core/clock.ts";
import { reasonOf } from "../../src/core/errors.ts";
import type { MetricsConfig } from "../../src/http/metrics-config.ts";
import { writeDataPoints } from "../../src/telemetry/analytics-engine.ts";
import { mergeSeries } from "../../src/telemetry/metrics-aggregate.ts";
import { createMetricsRecorder } from "../../src/telemetry/metrics-recorder.ts";
import { createMetricsReporter } from "../../src/telemetry/metrics-reporter.ts";
import type { Telemetry } from "../../src/telemetry/telemetry.ts";

/** Maximum number of series per isolate; each takes about 300 bytes. */
const MAX_SERIES = 2_000;

/** @returns undefined if no destination is configured, so that metrics cost nothing */
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
  const ownShard = shardName(Math.floor(Math.random() * shards));
  const reporter = createMetricsReporter({
    recorder,
    clock,
    isolateId: crypto.randomUUID(),
    intervalMs: config.EDGETIER_METRICS_INTERVAL_MS,
    send: aggregators && ((batch) => aggregators.getByName(ownShard).report(batch)),
    onBatch: analytics && ((batch) => writeDataPoints(analytics, batch)),
    onFailure: (error) => log({ level: "warn", event: "metrics_unsent", cause: reasonOf(error) }),
  });
  const readSeries =
    aggregators &&
    (async () =>
      mergeSeries(
        await Promise.all(
          Array.from({ length: shards }, (_, shard) =>
            aggregators.getByName(shardName(shard)).read(),
          ),
        ),
      ));
  return { metrics: recorder, reporter, readSeries };
}

const shardName = (shard: number): string => `shard-${shard}`;
