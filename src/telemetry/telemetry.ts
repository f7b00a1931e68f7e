// The metrics of one isolate, as the application is given them.

import type { EdgeMetrics } from "./metrics-recorder.ts";
import type { MetricsReporter } from "./metrics-reporter.ts";
import type { Series } from "./series-table.ts";

export interface Telemetry {
  readonly metrics: EdgeMetrics;
  readonly reporter: MetricsReporter;
  /** All that was counted by all isolates; undefined where only another place than this edge sums it up. */
  readonly readSeries?: (() => Promise<readonly Series[]>) | undefined;
}
