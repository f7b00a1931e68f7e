// What one request brings along through the serving code.

import type { PhaseTimer } from "../telemetry/phase-timer.ts";

export interface RequestContext {
  readonly requestId: string;
  readonly traceparent: string | undefined;
  /** By the application's clock. */
  readonly arrivedAtMs: number;
  readonly phases: PhaseTimer;
  /** Keeps work alive after the response (a Worker's `ctx.waitUntil`). */
  waitUntil(work: Promise<unknown>): void;
}
