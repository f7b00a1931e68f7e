// A region whose answers a test writes, on a clock that it moves. No imports from Node: suites in workerd use it too.
import { regionErrors } from "../../../src/region/errors.ts";
import { type ManualClock } from "../../../src/core/clock.ts";
import type { NamedTensors } from "../../../src/core/tensor.ts";
import type { OrcaLoadReport } from "../../../src/protocol/load-report.ts";
import type { PooledRegion } from "../../../src/region/client/region-state.ts";
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
  /** What it does with calls from now on; by the number of the call, from 0. */
  behavior: (call: number) => ScriptedBehavior;
  isReady: boolean;
  readonly calls: (RegionCall & { readonly aborted: () => boolean })[];
  readonly readyCheckCount: number;
}

export function createScriptedRegion(
  clock: ManualClock,
  id: string,
  latencyMs: number,
  more: Partial<Pick<PooledRegion, "location" | "publicUrl">> = {},
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
    const behaviour = region.behavior(region.calls.length);
    region.calls.push({ ...request, aborted: () => signal?.aborted === true });
    return new Promise((resolve, reject) => {
      const timeOut = () =>
        reject(
          regionErrors.regionUnavailable("it was given up", undefined, { failure: "timed_out" }),
        );
      if (signal?.aborted === true) return timeOut();
      signal?.addEventListener("abort", timeOut, { once: true });
      clock.setTimer(timeOut, request.timeoutMs);
      if (behaviour === "hangs") return;
      clock.setTimer(() => {
        if (behaviour.load !== undefined) request.onLoadReport?.(behaviour.load);
        if (behaviour.failure !== undefined)
          reject(
            regionErrors.regionUnavailable(`scripted: ${behaviour.failure}`, undefined, {
              failure: behaviour.failure,
            }),
          );
        else if (behaviour.isRejected === true) reject(regionErrors.regionRefused(400, "scripted"));
        else resolve(answer(behaviour.status ?? 200));
      }, behaviour.afterMs);
    });
  }

  const region: ScriptedRegion = {
    id,
    ...more,
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

export const createRegionRequest = (more: Partial<RegionRequest> = {}): RegionRequest => ({
  model: "mood",
  version: 1,
  tier: "heavy",
  inputs: [],
  requestId: "r",
  timeoutMs: 1_000,
  ...more,
});

/** Which region gave these outputs. */
export function respondingRegionOf({ from }: NamedTensors): string {
  return from?.datatype === "BYTES" ? new TextDecoder().decode(from.data[0]) : "";
}

/** Lets everything happen that does not wait for the clock. */
export async function flushMicrotasks(): Promise<void> {
  for (let turn = 0; turn < 30; turn++) await Promise.resolve();
}

/** Moves the clock until the work is over. */
export async function advanceUntilSettled<Result>(
  clock: ManualClock,
  work: Promise<Result>,
  stepMs = 1,
): Promise<PromiseSettledResult<Result>> {
  const seen: { result?: PromiseSettledResult<Result> } = {};
  void Promise.allSettled([work]).then(([settled]) => (seen.result = settled));
  for (;;) {
    await flushMicrotasks();
    if (seen.result !== undefined) return seen.result;
    clock.advance(stepMs);
  }
}
