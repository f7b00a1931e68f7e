// Virtual clock: jumps from event to event, so that a load of minutes takes milliseconds.
import { setImmediate as turn } from "node:timers/promises";
import type { Reply, Sender } from "../../src/cli/load/http-sender.ts";
import type { Pace } from "../../src/cli/load/pacer.ts";
import type { Clock } from "../../src/core/clock.ts";

interface Event {
  readonly atMs: number;
  readonly happen: () => void;
}

export class VirtualClock implements Clock {
  #nowMs = 0;
  #events: Event[] = [];
  #passing = 0;

  now = (): number => this.#nowMs;

  setTimer(callback: () => void, delayMs: number): () => void {
    const event = { atMs: this.#nowMs + delayMs, happen: callback };
    this.#events.push(event);
    return () => {
      this.#events = this.#events.filter((other) => other !== event);
    };
  }

  sleepUntil(atMs: number): Promise<void> {
    return new Promise((resolve) => this.setTimer(resolve, Math.max(0, atMs - this.#nowMs)));
  }

  /** Runs each event and its consequences before the next one. Ends at the given time or when it is called again. */
  async #passTo(atMs: number): Promise<void> {
    for (const passing = ++this.#passing; passing === this.#passing;) {
      const next = this.#events
        .filter((event) => event.atMs <= atMs)
        .reduce<Event | undefined>(
          (first, event) => (first === undefined || event.atMs < first.atMs ? event : first),
          undefined,
        );
      if (next === undefined) break;
      this.#events = this.#events.filter((event) => event !== next);
      this.#nowMs = next.atMs;
      next.happen();
      await turn();
    }
    if (Number.isFinite(atMs)) this.#nowMs = Math.max(this.#nowMs, atMs);
  }

  /** Advances the clock after the last call until no timer is pending. @param lateMs delay of each call behind its schedule */
  createPace(lateMs = 0): Pace {
    return async (dueMs, { onStart, onDue }, signal) => {
      const startedAtMs = this.#nowMs;
      onStart(startedAtMs);
      for (const [index, atMs] of dueMs.entries()) {
        await this.#passTo(startedAtMs + atMs + lateMs);
        if (signal?.aborted === true) return;
        onDue(index);
      }
      void this.#passTo(Number.POSITIVE_INFINITY);
    };
  }
}

export const createReply = (status = 200, headers: Reply["headers"] = {}, body = "{}"): Reply => ({
  status,
  headers,
  body,
  bytes: new TextEncoder().encode(body),
  connectionWaitMs: 0,
});

export const createFakeSender = (send: () => Promise<Reply>): Sender =>
  Object.assign(send, { openedConnections: () => 1, close: () => {} });

/** Serves one call at a time, each in `serviceMs`. */
export function createSerialServer(
  time: VirtualClock,
  serviceMs: (call: number) => number,
): () => Promise<Reply> {
  let freeAtMs = 0;
  let calls = 0;
  return async () => {
    freeAtMs = Math.max(freeAtMs, time.now()) + serviceMs(calls++);
    await time.sleepUntil(freeAtMs);
    return createReply();
  };
}
