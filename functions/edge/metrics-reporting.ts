// This isolate's metrics, as the configuration has them.

import type { Clock } from "../../src/core/clock.ts";
import { reasonOf } from "../../src/core/errors.ts";
import type { MetricsConfig } from "../../src/http/metrics-config.ts";
import { mergedSeries } from "../../src/telemetry/aggregate.ts";
import { writeToAnalytics } from "../../src/telemetry/analytics.ts";
import { createRecorder } from "../../src/telemetry/recorder.ts";
import { createReporter } from "../../src/telemetry/reporter.ts";
import type { Telemetry } from "../../src/telemetry/telemetry.ts";

/** Of an isolate: some 300 bytes each. */
const MAX_SERIES = 2_000;

/** @returns undefined where nobody takes what is counted: then it costs nothing */
export function createTelemetry(
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
  const recorder = createRecorder({ clock, maxSeries: MAX_SERIES });
  recorder.count("edgetier_isolates_started_total", {});
  const own = shardName(Math.floor(Math.random() * shards));
  const reporter = createReporter({
    recorder,
    clock,
    isolate: crypto.randomUUID(),
    intervalMs: config.EDGETIER_METRICS_INTERVAL_MS,
    send: aggregators && ((batch) => aggregators.getByName(own).report(batch)),
    onBatch: analytics && ((batch) => writeToAnalytics(analytics, batch)),
    onFailure: (error) => log({ level: "warn", event: "metrics_unsent", cause: reasonOf(error) }),
  });
  const read =
    aggregators &&
    (async () =>
      mergedSeries(
        await Promise.all(
          Array.from({ length: shards }, (_, shard) =>
            aggregators.getByName(shardName(shard)).read(),
          ),
        ),
      ));
  return { metrics: recorder, reporter, read };
}

const shardName = (shard: number): string => `shard-${shard}`;
