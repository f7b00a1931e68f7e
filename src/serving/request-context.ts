// Request context: the per-request state that the serving code passes along.

import type { GeoPoint } from "../core/geo.ts";
import type { Span } from "../core/tracing.ts";
import type { PhaseTimer } from "../telemetry/phase-timer.ts";

export interface RequestContext {
  readonly requestId: string;
  /** Span of the current operation. */
  readonly span: Span;
  /** Tenant of the credential, which isolates cached results; "" if the deployment requires no credential. */
  readonly tenant: string;
  /** Location of the client, if the platform knows it. */
  readonly geo: GeoPoint | undefined;
  /** Aborts when the client disconnects. */
  readonly disconnectSignal: AbortSignal;
  /** Arrival time, by the application's clock. */
  readonly arrivedAtMs: number;
  readonly phases: PhaseTimer;
  /** Model that the request names, set once the catalog has found it. */
  model?: string;
  /** Keeps work alive after the response (a Worker's `ctx.waitUntil`). */
  waitUntil(work: Promise<unknown>): void;
}
