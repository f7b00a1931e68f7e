// Says in the answers to those who ask how busy this region is (protocol/load-report.ts): refusals too, since these come when it
// is busiest.

import type { Hono } from "hono";
import type { Clock } from "../../core/clock.ts";
import {
  LOAD_FORMAT_HEADER,
  LOAD_REPORT_HEADER,
  type LoadReport,
  writeLoadReport,
} from "../../protocol/load-report.ts";
import type { Permits } from "./batching/permits.ts";
import type { Executor } from "./executor.ts";
import type { Lifecycle } from "./lifecycle.ts";
import { type Env, modelPaths } from "./routes/route.ts";

export interface LoadSources {
  readonly lifecycle: Pick<Lifecycle, "inFlight">;
  readonly executor: Pick<Executor, "queues">;
  readonly permits: Pick<Permits, "takenShare">;
  readonly clock: Clock;
}

/** Looking through all queues takes time; a report may be so old. */
const REPORT_AGE_MS = 10;

/** To the infer routes; call it before they are added. */
export function addLoadReport(
  app: Hono<Env>,
  { lifecycle, executor, permits, clock }: LoadSources,
): void {
  let last: { readonly report: LoadReport; readonly atMs: number } | undefined;

  function report(): LoadReport {
    if (last === undefined || Math.abs(clock.now() - last.atMs) >= REPORT_AGE_MS) {
      const oldestQueuedMs = executor
        .queues()
        .reduce((oldest, { ageMs }) => Math.max(oldest, ageMs), 0);
      last = {
        report: {
          utilisation: rounded(permits.takenShare),
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
      const format = c.req.header(LOAD_FORMAT_HEADER);
      await next();
      const header = format === undefined ? undefined : writeLoadReport(report(), format);
      if (header !== undefined) c.header(LOAD_REPORT_HEADER, header);
    });
  }
}

const rounded = (value: number): number => Math.round(value * 1_000) / 1_000;
