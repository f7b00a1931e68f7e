// A precomputation: batch after batch at a bounded rate, put off as long as the edge says, and kept in the state after each.

import { cliErrors } from "../errors.ts";
import { type Clock, systemClock } from "../../core/clock.ts";
import type { BatchResult } from "./batch-predictor.ts";
import type { InputLine, PrecomputeInput } from "./inputs.ts";
import type { PrecomputeFailure, PrecomputeState } from "./progress-state.ts";

export interface PrecomputeOptions {
  readonly inputs: readonly InputLine[];
  readonly state: PrecomputeState;
  /** Inputs in one request. */
  readonly batchSize: number;
  /** Inputs a second, at most. */
  readonly ratePerSecond: number | undefined;
  readonly predictBatch: (inputs: readonly PrecomputeInput[]) => Promise<BatchResult>;
  readonly log: (line: string) => void;
  readonly clock?: Clock;
}

export interface PrecomputeReport {
  readonly asked: number;
  /** Were in a cache. */
  readonly cached: number;
  readonly computed: number;
  /** Were refused, or answered in a way that no cache keeps. */
  readonly failed: number;
  readonly hitShare: number;
  readonly failures: readonly PrecomputeFailure[];
}

const MAX_ATTEMPTS = 6;
const MIN_BACKOFF_MS = 500;
const MAX_BACKOFF_MS = 60_000;
const LOG_INTERVAL_MS = 2_000;

/** @throws what the edge says when it puts a batch off again and again; what was done until then is in the state */
export async function runPrecompute({
  inputs,
  state,
  batchSize: batch,
  ratePerSecond: perSecond,
  predictBatch: ask,
  log: tell,
  clock = systemClock,
}: PrecomputeOptions): Promise<PrecomputeReport> {
  let { asked, cached, computed } = state.progress;
  const failures = [...state.progress.failures];
  const pause = (ms: number) => new Promise<void>((resolve) => void clock.setTimer(resolve, ms));

  async function askUntilAnswered(
    some: readonly InputLine[],
  ): Promise<Exclude<BatchResult, { readonly kind: "retry-later" }>> {
    for (
      let tries = 1, pauseMs = MIN_BACKOFF_MS;
      ;
      tries++, pauseMs = Math.min(2 * pauseMs, MAX_BACKOFF_MS)
    ) {
      const answer = await ask(some.map(({ input }) => input));
      if (answer.kind !== "retry-later") return answer;
      if (tries === MAX_ATTEMPTS)
        throw cliErrors.precomputeStopped(answer.code, answer.detail, asked, inputs.length);
      const waitMs = Math.min(Math.max(answer.retryAfterMs ?? 0, pauseMs), MAX_BACKOFF_MS);
      tell(`${answer.code}: ${answer.detail} Again in ${waitMs / 1_000} s.`);
      await pause(waitMs);
    }
  }

  /** One input that is refused must not take its neighbours along: they are then asked one by one. */
  async function take(some: readonly InputLine[]): Promise<void> {
    const answer = await askUntilAnswered(some);
    if (answer.kind === "answered") {
      cached += some.length - answer.computed;
      computed += answer.computed - answer.degraded.length;
      const detail =
        "A fault or the deadline kept a better tier from being asked, so that no cache keeps the answer.";
      for (const index of answer.degraded)
        failures.push({ line: some[index]?.line ?? 0, code: "degraded", detail });
    } else if (answer.kind === "rejected" && some.length > 1) {
      for (const one of some) await take([one]);
    } else {
      for (const { line } of some)
        failures.push({ line, code: answer.code, detail: answer.detail });
    }
  }

  if (asked > 0) tell(`going on after ${asked} of ${inputs.length}, by ${state.path}`);
  const began = { atMs: clock.now(), asked };
  let toldAtMs = clock.now();
  while (asked < inputs.length) {
    const some = inputs.slice(asked, asked + batch);
    await take(some);
    asked += some.length;
    await state.save({ asked, cached, computed, failures });
    const passedMs = clock.now() - began.atMs;
    if (clock.now() - toldAtMs >= LOG_INTERVAL_MS) {
      toldAtMs = clock.now();
      tell(
        `${asked} of ${inputs.length} (${((100 * asked) / inputs.length).toFixed(1)} %), ${Math.round((1_000 * (asked - began.asked)) / passedMs)} a second, ${failures.length} failed`,
      );
    }
    const dueMs = perSecond === undefined ? 0 : (1_000 * (asked - began.asked)) / perSecond;
    if (dueMs > passedMs && asked < inputs.length) await pause(dueMs - passedMs);
  }
  return {
    asked,
    cached,
    computed,
    failed: failures.length,
    hitShare: asked === 0 ? 0 : cached / asked,
    failures,
  };
}
