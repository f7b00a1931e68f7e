// Load simulation for the executor: Poisson arrivals of one row each, and run times that depend on the number of rows.
// The clock jumps from event to event, so that every machine gets the same figures.
import type { Clock } from "../../../src/core/clock.ts";
import type { NamedTensors } from "../../../src/core/tensor.ts";
import { createExecutor } from "../../../src/region/server/batching/create-executor.ts";
import type { BatchingConfig } from "../../../src/registry/serving-config.ts";
import type { Session } from "../../../src/runtime/runtime.ts";
import { createRandom } from "../../bench/lib/random.ts";
import { flushEventLoop, TEST_TIER } from "./manual-session.ts";

export interface SimulatedLoad {
  /** Mean run time; single runs vary around it. */
  readonly runMs: (rows: number) => number;
  readonly requestsPerMs: number;
  readonly requests?: number;
  readonly instances?: number;
  readonly seed?: number;
}

export interface SimulationResult {
  readonly meanMs: number;
  readonly p99Ms: number;
  readonly meanRows: number;
  readonly reasons: ReadonlySet<string>;
}

/** Standard deviation of the logarithm of a run time. */
const LOG_STANDARD_DEVIATION = 0.1;
/** Share of requests that are not counted, because the policy has not learned the run times yet. */
const WARMUP_SHARE = 0.2;

export async function simulateLoad(
  batching: BatchingConfig,
  { runMs, requestsPerMs, requests = 2_500, instances = 1, seed = 1 }: SimulatedLoad,
): Promise<SimulationResult> {
  const clock = createEventClock();
  const [arrivals, noises] = [createRandom(seed), createRandom(seed + 1)];
  const session: Session = {
    inputs: [{ name: "x", datatype: "FP32", shape: [-1, 1] }],
    outputs: [],
    memoryBytes: 0,
    concurrency: instances,
    run: ({ x }) => {
      const { promise, resolve } = Promise.withResolvers<NamedTensors>();
      const gaussian =
        Math.sqrt(-2 * Math.log(1 - noises.next())) * Math.cos(2 * Math.PI * noises.next());
      clock.setTimer(
        () => resolve({}),
        runMs(x?.shape[0] ?? 0) * Math.exp(LOG_STANDARD_DEVIATION * gaussian),
      );
      return promise;
    },
    dispose: async () => {},
  };
  let runs = 0;
  const reasons = new Set<string>();
  const executor = createExecutor({
    clock,
    defaultBatching: { queue: { maxQueueSize: requests }, ...batching },
    onRun: ({ reason }) => (runs++, reasons.add(reason)),
  });
  const inputs: NamedTensors = {
    x: { datatype: "FP32", shape: [1, 1], data: new Float32Array(1) },
  };
  const latenciesMs: number[] = [];
  let sent = 0;

  function arrive(): void {
    const [index, sentMs] = [sent++, clock.now()];
    void executor
      .execute({ session, tier: TEST_TIER, inputs })
      .then(() => (latenciesMs[index] = clock.now() - sentMs));
    if (sent < requests) clock.setTimer(arrive, arrivals.exponential(1 / requestsPerMs));
  }
  arrive();
  do await flushEventLoop();
  while (clock.next());

  const counted = latenciesMs.slice(WARMUP_SHARE * requests).sort((a, b) => a - b);
  const meanMs = counted.reduce((sum, ms) => sum + ms, 0) / counted.length;
  return {
    meanMs,
    p99Ms: counted[Math.floor(0.99 * counted.length)] ?? Number.NaN,
    meanRows: requests / runs,
    reasons,
  };
}

function createEventClock(): Clock & { next(): boolean } {
  const timers: { readonly dueMs: number; readonly callback: () => void }[] = [];
  let nowMs = 0;
  return {
    now: () => nowMs,
    setTimer(callback, delayMs) {
      const timer = { dueMs: nowMs + delayMs, callback };
      const at = timers.findIndex(({ dueMs }) => dueMs > timer.dueMs);
      timers.splice(at === -1 ? timers.length : at, 0, timer);
      return () => {
        const index = timers.indexOf(timer);
        if (index !== -1) timers.splice(index, 1);
      };
    },
    /** Advances to the next timer and fires it. @returns whether there was one */
    next() {
      const timer = timers.shift();
      if (timer === undefined) return false;
      nowMs = timer.dueMs;
      timer.callback();
      return true;
    },
  };
}
