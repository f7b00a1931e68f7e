// Says in the answers to those who ask how busy this region is (protocol/load-report.ts): refusals too, since these come when it
// is busiest.

import type { Hono } from "hono";
import type { Clock } from "../../core/clock.ts";
import {
  LOAD_REPORT_FORMAT_HEADER,
  LOAD_REPORT_HEADER,
  type OrcaLoadReport,
  formatLoadReport,
} from "../../protocol/load-report.ts";
import type { ConcurrencyLimiter } from "./batching/concurrency-limiter.ts";
import type { Executor } from "./executor.ts";
import type { Lifecycle } from "./lifecycle.ts";
import { type RegionEnv, modelPaths } from "./routes/route-helpers.ts";

export interface LoadSources {
  readonly lifecycle: Pick<Lifecycle, "inFlight">;
  readonly executor: Pick<Executor, "queueStates">;
  readonly concurrencyLimiter: Pick<ConcurrencyLimiter, "utilization">;
  readonly clock: Clock;
}

/** Looking through all queues takes time; a report may be so old. */
const MAX_REPORT_AGE_MS = 10;

/** To the infer routes; call it before they are added. */
export function addLoadReportHeader(
  app: Hono<RegionEnv>,
  { lifecycle, executor, concurrencyLimiter: permits, clock }: LoadSources,
): void {
  let last: { readonly report: OrcaLoadReport; readonly atMs: number } | undefined;

  function report(): OrcaLoadReport {
    if (last === undefined || Math.abs(clock.now() - last.atMs) >= MAX_REPORT_AGE_MS) {
      const oldestQueuedMs = executor
        .queueStates()
        .reduce((oldest, { oldestAgeMs: ageMs }) => Math.max(oldest, ageMs), 0);
      last = {
        report: {
          utilization: rounded(permits.utilization),
          requestsInFlight: lifecycle.inFlight,
          oldestQueuedMs: rounded(oldestQueuedMs),
        },
        atMs: clock.now(),
      };
    }
    return last.report;
  }

  for (const path of modelPaths("/infer")) {
    app.use(path, async (c, next) => {
      const format = c.req.header(LOAD_REPORT_FORMAT_HEADER);
      await next();
      const header = format === undefined ? undefined : formatLoadReport(report(), format);
      if (header !== undefined) c.header(LOAD_REPORT_HEADER, header);
    });
  }
}

const rounded = (value: number): number => Math.round(value * 1_000) / 1_000;
