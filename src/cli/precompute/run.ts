// A precomputation: batch after batch at a bounded rate, put off as long as the edge says, and kept in the state after each.

import { cliErrors } from "../errors.ts";
import { type Clock, systemClock } from "../../core/clock.ts";
import type { Asked } from "./ask-edge.ts";
import type { InputLine, PrecomputeInput } from "./inputs.ts";
import type { PrecomputeFailure, PrecomputeState } from "./state.ts";

export interface PrecomputeOptions {
  readonly inputs: readonly InputLine[];
  readonly state: PrecomputeState;
  /** Inputs in one request. */
  readonly batch: number;
  /** Inputs a second, at most. */
  readonly perSecond: number | undefined;
  readonly ask: (inputs: readonly PrecomputeInput[]) => Promise<Asked>;
  readonly tell: (line: string) => void;
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

const MAX_TRIES = 6;
const FIRST_PAUSE_MS = 500;
const MAX_PAUSE_MS = 60_000;
const TELL_EVERY_MS = 2_000;

/** @throws what the edge says when it puts a batch off again and again; what was done until then is in the state */
export async function runPrecompute({
  inputs,
  state,
  batch,
  perSecond,
  ask,
  tell,
  clock = systemClock,
}: PrecomputeOptions): Promise<PrecomputeReport> {
  let { asked, cached, computed } = state.progress;
  const failures = [...state.progress.failures];
  const pause = (ms: number) => new Promise<void>((resolve) => void clock.setTimer(resolve, ms));

  async function askUntilAnswered(
    some: readonly InputLine[],
  ): Promise<Exclude<Asked, { readonly is: "put off" }>> {
    for (
      let tries = 1, pauseMs = FIRST_PAUSE_MS;
      ;
      tries++, pauseMs = Math.min(2 * pauseMs, MAX_PAUSE_MS)
    ) {
      const answer = await ask(some.map(({ input }) => input));
      if (answer.is !== "put off") return answer;
      if (tries === MAX_TRIES)
        throw cliErrors.precomputeStopped(answer.code, answer.detail, asked, inputs.length);
      const waitMs = Math.min(Math.max(answer.retryAfterMs ?? 0, pauseMs), MAX_PAUSE_MS);
      tell(`${answer.code}: ${answer.detail} Again in ${waitMs / 1_000} s.`);
      await pause(waitMs);
    }
  }

  /** One input that is refused must not take its neighbours along: they are then asked one by one. */
  async function take(some: readonly InputLine[]): Promise<void> {
    const answer = await askUntilAnswered(some);
    if (answer.is === "answered") {
      cached += some.length - answer.computed;
      computed += answer.computed - answer.degraded.length;
      const detail =
        "A fault or the deadline kept a better tier from being asked, so that no cache keeps the answer.";
      for (const index of answer.degraded)
        failures.push({ line: some[index]?.line ?? 0, code: "degraded", detail });
    } else if (answer.is === "refused" && some.length > 1) {
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
    if (clock.now() - toldAtMs >= TELL_EVERY_MS) {
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
