// What one request brings along through the serving code.

import type { GeoPoint } from "../core/geo.ts";
import type { Span } from "../core/tracing.ts";
import type { PhaseTimer } from "../telemetry/phase-timer.ts";

export interface RequestContext {
  readonly requestId: string;
  /** Of what is under way. */
  readonly span: Span;
  /** Whose request it is; cached answers never cross from one to another. "" where nobody has to say who they are. */
  readonly tenant: string;
  /** Where the client is, as far as the platform knows. */
  readonly geo: GeoPoint | undefined;
  /** Aborts when the client has left. */
  readonly disconnectSignal: AbortSignal;
  /** By the application's clock. */
  readonly arrivedAtMs: number;
  readonly phases: PhaseTimer;
  /** The model that the request named, once the catalogue knows that there is such a one. */
  model?: string;
  /** Keeps work alive after the response (a Worker's `ctx.waitUntil`). */
  waitUntil(work: Promise<unknown>): void;
}
