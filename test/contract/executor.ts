// Contract of Executor.
/* oxlint-disable max-lines-per-function -- a contract is one suite, whose cases share the fixture of a driver */
import { describe, expect, it } from "vitest";
import { type Clock, ManualClock } from "../../src/core/clock.ts";
import type { NamedTensors } from "../../src/core/tensor.ts";
import type { Executor } from "../../src/region/server/executor.ts";
import type { Session } from "../../src/runtime/runtime.ts";

export interface ExecutorOptions {
  readonly clock?: Clock;
  /** Maximum number of rows that wait for a session. */
  readonly waitingRows?: number;
}

const inputs: NamedTensors = {};
const heavyTier = { model: "held", version: 1, tier: "heavy" };

/** Creates a session whose runs end when the test ends them. */
function createGatedSession() {
  const ends: (() => void)[] = [];
  const session: Session = {
    inputs: [],
    outputs: [],
    memoryBytes: 0,
    run: () => new Promise((resolve) => ends.push(() => resolve({}))),
    dispose: async () => {},
  };
  return { session, ends, started: () => ends.length };
}
const flushEventLoop = () => new Promise((resolve) => setImmediate(resolve));

export function executorContract(
  name: string,
  create: (options?: ExecutorOptions) => Executor,
): void {
  describe(`Executor: ${name}`, () => {
    it("runs a session serially, and different sessions concurrently", async () => {
      const executor = create();
      const [first, second] = [createGatedSession(), createGatedSession()];
      const done = [first, first, second].map(({ session }) =>
        executor.execute({ session, tier: heavyTier, inputs }),
      );
      await flushEventLoop();
      expect({ first: first.started(), second: second.started() }).toEqual({ first: 1, second: 1 });
      first.ends[0]?.();
      await done[0];
      await flushEventLoop();
      expect(first.started()).toBe(2);
      first.ends[1]?.();
      second.ends[0]?.();
      await Promise.all(done);
    });

    it("rejects a request at its expiry, and never starts it afterwards", async () => {
      const clock = new ManualClock();
      const executor = create({ clock });
      const { session, ends, started } = createGatedSession();
      const running = executor.execute({ session, tier: heavyTier, inputs });
      const waiting = executor.execute({ session, tier: heavyTier, inputs, expiresAtMs: 20 });
      const patient = executor.execute({ session, tier: heavyTier, inputs, expiresAtMs: 21 });
      const rejection = waiting.catch((error: unknown) => error);
      await flushEventLoop();
      clock.advance(20);
      expect(await rejection).toMatchObject({
        code: "request_expired",
        status: 503,
        message: expect.stringContaining("Request timeout expired"),
      });
      ends[0]?.();
      await running;
      await flushEventLoop();
      expect(started()).toBe(2); // the running and the patient request
      ends[1]?.();
      expect(await patient).toEqual({});
    });

    it("rejects a request that is already expired", async () => {
      const clock = new ManualClock(100);
      const { session, started } = createGatedSession();
      const execution = create({ clock }).execute({
        session,
        tier: heavyTier,
        inputs,
        expiresAtMs: 100,
      });
      await expect(execution).rejects.toMatchObject({ code: "request_expired" });
      expect(started()).toBe(0);
    });

    it("never starts a request whose client has disconnected", async () => {
      const executor = create();
      const { session, ends, started } = createGatedSession();
      const client = new AbortController();
      const running = executor.execute({ session, tier: heavyTier, inputs });
      const cancelled = executor.execute({
        session,
        tier: heavyTier,
        inputs,
        signal: client.signal,
      });
      await flushEventLoop();
      client.abort();
      ends[0]?.();
      await running;
      await expect(cancelled).rejects.toMatchObject({ code: "request_cancelled" });
      expect(started()).toBe(1);
    });

    it("rejects requests beyond its queue limit, and accepts new ones after a run", async () => {
      const executor = create({ waitingRows: 1 });
      const { session, ends } = createGatedSession();
      const accepted = [
        executor.execute({ session, tier: heavyTier, inputs }),
        executor.execute({ session, tier: heavyTier, inputs }),
      ];
      await expect(executor.execute({ session, tier: heavyTier, inputs })).rejects.toMatchObject({
        code: "queue_full",
        status: 503,
        message: expect.stringContaining("Exceeds maximum queue size"),
      });
      await flushEventLoop();
      ends[0]?.();
      await accepted[0];
      const next = executor.execute({ session, tier: heavyTier, inputs });
      await flushEventLoop();
      ends[1]?.();
      await flushEventLoop();
      ends[2]?.();
      await Promise.all([accepted[1], next]);
    });

    it("runs as many requests concurrently as the session allows", async () => {
      const executor = create();
      const { session, ends, started } = createGatedSession();
      const double: Session = { ...session, concurrency: 2 };
      const done = [1, 2, 3].map(() =>
        executor.execute({ session: double, tier: heavyTier, inputs }),
      );
      await flushEventLoop();
      expect(started()).toBe(2);
      ends[0]?.();
      await done[0];
      await flushEventLoop();
      expect(started()).toBe(3);
      ends.slice(1).forEach((end) => end());
      await Promise.all(done);
    });

    it("reports queued and running requests per tier, over all its sessions", async () => {
      const clock = new ManualClock();
      const executor = create({ clock });
      expect(executor.queueStates()).toEqual([]);
      const [first, second] = [createGatedSession(), createGatedSession()];
      const done = [first, first, second].map(({ session }) =>
        executor.execute({ session, tier: heavyTier, inputs }),
      );
      await flushEventLoop();
      clock.advance(5);
      expect(executor.queueStates()).toEqual([
        { tier: heavyTier, requestCount: 1, rows: 1, oldestAgeMs: 5, runsInFlight: 2 },
      ]);
      first.ends[0]?.();
      await done[0];
      await flushEventLoop();
      first.ends[1]?.();
      second.ends[0]?.();
      await Promise.all(done);
      expect(executor.queueStates()).toEqual([
        { tier: heavyTier, requestCount: 0, rows: 0, oldestAgeMs: 0, runsInFlight: 0 },
      ]);
    });

    it("continues after a failed run", async () => {
      const executor = create();
      const { session } = createGatedSession();
      let runs = 0;
      const failing: Session = {
        ...session,
        run: async () => (runs++ === 0 ? Promise.reject(new Error("broken")) : {}),
      };
      const both = await Promise.allSettled([
        executor.execute({ session: failing, tier: heavyTier, inputs }),
        executor.execute({ session: failing, tier: heavyTier, inputs }),
      ]);
      expect(both.map(({ status }) => status)).toEqual(["rejected", "fulfilled"]);
    });
  });
}
