import { type ManualClock } from "../../../src/core/clock.ts";
import type { NamedTensors } from "../../../src/core/tensor.ts";
import type { OrcaLoadReport } from "../../../src/protocol/load-report.ts";
import type { PooledRegion } from "../../../src/region/client/region-state.ts";
// Scripted region: a test sets its responses, on a manual clock. It imports nothing from Node, because suites in workerd use it too.
import { regionErrors } from "../../../src/region/errors.ts";
import type {
  RegionCall,
  RegionFailure,
  RegionRequest,
} from "../../../src/region/region-client.ts";

export type ScriptedBehavior =
  | {
      readonly afterMs: number;
      readonly failure?: RegionFailure;
      readonly isRejected?: boolean;
      readonly status?: number;
      readonly load?: OrcaLoadReport;
    }
  | "hangs";

export interface ScriptedRegion extends PooledRegion {
  /** Behavior for the following calls, by the index of the call. */
  behavior: (call: number) => ScriptedBehavior;
  isReady: boolean;
  readonly calls: (RegionCall & { readonly aborted: () => boolean })[];
  readonly readyCheckCount: number;
}

/** Settles after the behavior's latency, the call's timeout or the caller's abort, whichever is first. */
function settleScripted<Answer>(
  clock: ManualClock,
  behavior: ScriptedBehavior,
  { request, signal, answer }: ScriptedCall<Answer>,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const fail = (reason: string, failure: RegionFailure) =>
      reject(regionErrors.regionUnavailable(reason, undefined, { failure }));
    const timeOut = () => fail("timed out", "timed_out");
    if (signal?.aborted === true) return timeOut();
    signal?.addEventListener("abort", timeOut, { once: true });
    clock.setTimer(timeOut, request.timeoutMs);
    if (behavior === "hangs") return;
    clock.setTimer(() => {
      if (behavior.load !== undefined) request.onLoadReport?.(behavior.load);
      if (behavior.failure !== undefined) fail(`scripted: ${behavior.failure}`, behavior.failure);
      else if (behavior.isRejected === true) reject(regionErrors.regionRefused(400, "scripted"));
      else resolve(answer(behavior.status ?? 200));
    }, behavior.afterMs);
  });
}

interface ScriptedCall<Answer> {
  readonly request: RegionCall;
  readonly signal: AbortSignal | undefined;
  readonly answer: (status: number) => Answer;
}

export function createScriptedRegion(
  clock: ManualClock,
  id: string,
  latencyMs: number,
  overrides: Partial<Pick<PooledRegion, "location" | "publicUrl">> = {},
): ScriptedRegion {
  let readyChecks = 0;
  const outputs: NamedTensors = {
    from: { datatype: "BYTES", shape: [1], data: [new TextEncoder().encode(id)] },
  };

  function call<Answer>(
    request: RegionCall,
    signal: AbortSignal | undefined,
    answer: (status: number) => Answer,
  ): Promise<Answer> {
    const behavior = region.behavior(region.calls.length);
    region.calls.push({ ...request, aborted: () => signal?.aborted === true });
    return settleScripted(clock, behavior, { request, signal, answer });
  }

  const region: ScriptedRegion = {
    id,
    ...overrides,
    behavior: () => ({ afterMs: latencyMs }),
    isReady: true,
    calls: [],
    get readyCheckCount() {
      return readyChecks;
    },
    client: {
      infer: (request, signal) => call(request, signal, () => outputs),
      resume: (request, signal) => call(request, signal, () => outputs),
      forward: (request, signal) => call(request, signal, (status) => new Response(id, { status })),
      isReady: async () => {
        readyChecks++;
        return region.isReady;
      },
      isModelReady: async () => region.isReady,
    },
  };
  return region;
}

export const createRegionRequest = (overrides: Partial<RegionRequest> = {}): RegionRequest => ({
  model: "mood",
  version: 1,
  tier: "heavy",
  inputs: [],
  requestId: "r",
  timeoutMs: 1_000,
  ...overrides,
});

/** Id of the region that returned these outputs. */
export function respondingRegionOf({ from }: NamedTensors): string {
  return from?.datatype === "BYTES" ? new TextDecoder().decode(from.data[0]) : "";
}

/** Runs all pending work that does not wait for the clock. */
export async function flushMicrotasks(): Promise<void> {
  for (let turn = 0; turn < 30; turn++) await Promise.resolve();
}

/** Advances the clock until the work has settled. */
export async function advanceUntilSettled<Result>(
  clock: ManualClock,
  work: Promise<Result>,
  stepMs = 1,
): Promise<PromiseSettledResult<Result>> {
  const outcome: { result?: PromiseSettledResult<Result> } = {};
  void Promise.allSettled([work]).then(([settled]) => (outcome.result = settled));
  for (;;) {
    await flushMicrotasks();
    if (outcome.result !== undefined) return outcome.result;
    clock.advance(stepMs);
  }
}
