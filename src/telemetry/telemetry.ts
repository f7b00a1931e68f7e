// Telemetry of one isolate: the part that the application receives.

import type { EdgeMetrics } from "./metrics-recorder.ts";
import type { MetricsReporter } from "./metrics-reporter.ts";
import type { Series } from "./series-table.ts";

export interface Telemetry {
  readonly metrics: EdgeMetrics;
  readonly reporter: MetricsReporter;
  /** Reads the sums over all isolates; undefined if they are only available outside this edge. */
  readonly readSeries?: (() => Promise<readonly Series[]>) | undefined;
}
