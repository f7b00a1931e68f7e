// What every Executor must do.
import { describe, expect, it } from "vitest";
import { type Clock, ManualClock } from "../../src/core/clock.ts";
import type { NamedTensors } from "../../src/core/tensor.ts";
import type { Executor } from "../../src/region/server/executor.ts";
import type { Session } from "../../src/runtime/runtime.ts";

export interface ExecutorOptions {
  readonly clock?: Clock;
  /** Rows that may wait for a session. */
  readonly waitingRows?: number;
}

const inputs: NamedTensors = {};
const heavyTier = { model: "held", version: 1, tier: "heavy" };

/** A session whose runs end when the test says so. */
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
    it("runs one at a time on a session, and different sessions side by side", async () => {
      const executor = create();
      const [first, second] = [createGatedSession(), createGatedSession()];
      const done = [first, first, second].map(({ session }) =>
        executor.execute({ session, tier: heavyTier, inputs }),
      );
      await flushEventLoop();
      expect([first.started(), second.started()]).toEqual([1, 1]);
      first.ends[0]?.();
      await done[0];
      await flushEventLoop();
      expect(first.started()).toBe(2);
      first.ends[1]?.();
      second.ends[0]?.();
      await Promise.all(done);
    });

    it("answers at the moment of expiry, and never starts what has expired", async () => {
      const clock = new ManualClock();
      const executor = create({ clock });
      const { session, ends, started } = createGatedSession();
      const running = executor.execute({ session, tier: heavyTier, inputs });
      const waiting = executor.execute({ session, tier: heavyTier, inputs, expiresAtMs: 20 });
      const patient = executor.execute({ session, tier: heavyTier, inputs, expiresAtMs: 21 });
      const refusal = waiting.catch((error: unknown) => error);
      await flushEventLoop();
      clock.advance(20);
      // While the first still runs:
      expect(await refusal).toMatchObject({
        code: "request_expired",
        status: 503,
        message: expect.stringContaining("Request timeout expired"),
      });
      ends[0]?.();
      await running;
      await flushEventLoop();
      expect(started()).toBe(2); // the first and the patient one
      ends[1]?.();
      expect(await patient).toEqual({});
    });

    it("refuses what has expired before it came", async () => {
      const clock = new ManualClock(100);
      const { session, started } = createGatedSession();
      const work = create({ clock }).execute({
        session,
        tier: heavyTier,
        inputs,
        expiresAtMs: 100,
      });
      await expect(work).rejects.toMatchObject({ code: "request_expired" });
      expect(started()).toBe(0);
    });

    it("never starts work whose client has left", async () => {
      const executor = create();
      const { session, ends, started } = createGatedSession();
      const client = new AbortController();
      const running = executor.execute({ session, tier: heavyTier, inputs });
      const left = executor.execute({ session, tier: heavyTier, inputs, signal: client.signal });
      await flushEventLoop();
      client.abort();
      ends[0]?.();
      await running;
      await expect(left).rejects.toMatchObject({ code: "request_cancelled" });
      expect(started()).toBe(1);
    });

    it("takes no more than its bound, and takes again when work is done", async () => {
      const executor = create({ waitingRows: 1 });
      const { session, ends } = createGatedSession();
      const taken = [
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
      await taken[0];
      const next = executor.execute({ session, tier: heavyTier, inputs });
      await flushEventLoop();
      ends[1]?.();
      await flushEventLoop();
      ends[2]?.();
      await Promise.all([taken[1], next]);
    });

    it("makes as many runs at once as the session does", async () => {
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

    it("tells what waits and runs, by tier, two sessions of one together", async () => {
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

    it("goes on after a run that fails", async () => {
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
      expect(both.map((one) => one.status)).toEqual(["rejected", "fulfilled"]);
    });
  });
}
