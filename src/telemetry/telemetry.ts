// The metrics of one isolate, as the application is given them.

import type { EdgeMetrics } from "./recorder.ts";
import type { Reporter } from "./reporter.ts";
import type { Series } from "./series.ts";

export interface Telemetry {
  readonly metrics: EdgeMetrics;
  readonly reporter: Reporter;
  /** All that was counted by all isolates; undefined where only another place than this edge sums it up. */
  readonly read?: (() => Promise<readonly Series[]>) | undefined;
}
