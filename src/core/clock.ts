// Clock port: all timing goes through it, so tests can advance time by hand.

export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Calls `callback` once after `delayMs`; the returned function cancels it. */
  setTimer(callback: () => void, delayMs: number): () => void;
}

/** Longest delay of `setTimeout`, which fires immediately for a longer one. */
const MAX_TIMEOUT_MS = 2_147_483_647;

export const systemClock: Clock = {
  now: () => Date.now(),
  setTimer(callback, delayMs) {
    const handle = setTimeout(callback, Math.min(delayMs, MAX_TIMEOUT_MS));
    return () => clearTimeout(handle);
  },
};

/** Test clock: time advances only through `advance`, which fires due timers in order. */
export class ManualClock implements Clock {
  #nowMs: number;
  #timers: { dueMs: number; callback: () => void }[] = [];

  constructor(startMs = 0) {
    this.#nowMs = startMs;
  }

  now(): number {
    return this.#nowMs;
  }

  setTimer(callback: () => void, delayMs: number): () => void {
    const timer = { dueMs: this.#nowMs + delayMs, callback };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  }

  advance(durationMs: number): void {
    const endMs = this.#nowMs + durationMs;
    for (;;) {
      const due = this.#timers
        .filter((timer) => timer.dueMs <= endMs)
        .sort((a, b) => a.dueMs - b.dueMs)[0];
      if (due === undefined) break;
      this.#timers = this.#timers.filter((timer) => timer !== due);
      this.#nowMs = due.dueMs;
      due.callback();
    }
    this.#nowMs = endMs;
  }
}
