// Request context for tests outside the HTTP application. No imports from Node: suites in workerd use it too.
import type { Clock } from "../../src/core/clock.ts";
import { NON_RECORDING_SPAN } from "../../src/core/tracing.ts";
import type { RequestContext } from "../../src/serving/request-context.ts";
import { startPhaseTimer } from "../../src/telemetry/phase-timer.ts";

export function createRequestContext(clock: Clock, requestId = "r-1"): RequestContext {
  return {
    requestId,
    span: NON_RECORDING_SPAN,
    tenant: "",
    geo: undefined,
    disconnectSignal: new AbortController().signal,
    arrivedAtMs: clock.now(),
    phases: startPhaseTimer(clock, clock.now()),
    waitUntil: (work) => void work.catch(() => {}),
  };
}
