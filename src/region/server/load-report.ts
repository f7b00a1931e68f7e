// Adds a load report (protocol/load-report.ts) to responses of clients that request one. Rejections carry it too, because they
// occur when the region is busiest.

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

/** Maximum age of a report, because reading all queues takes time. */
const MAX_REPORT_AGE_MS = 10;

/** Adds the report to the infer routes. Call it before they are added. */
export function addLoadReportHeader(
  app: Hono<RegionEnv>,
  { lifecycle, executor, concurrencyLimiter, clock }: LoadSources,
): void {
  let last: { readonly report: OrcaLoadReport; readonly atMs: number } | undefined;

  function report(): OrcaLoadReport {
    if (last === undefined || Math.abs(clock.now() - last.atMs) >= MAX_REPORT_AGE_MS) {
      const oldestQueuedMs = executor
        .queueStates()
        .reduce((oldest, { oldestAgeMs }) => Math.max(oldest, oldestAgeMs), 0);
      last = {
        report: {
          utilization: roundToThousandths(concurrencyLimiter.utilization),
          requestsInFlight: lifecycle.inFlight,
          oldestQueuedMs: roundToThousandths(oldestQueuedMs),
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

const roundToThousandths = (value: number): number => Math.round(value * 1_000) / 1_000;
