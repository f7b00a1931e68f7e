import { describe, expect, it, vi } from "vitest";
import { startDeadline } from "../../src/cascade/deadline.ts";
import { ManualClock } from "../../src/core/clock.ts";

const neverSettles = new Promise<never>(() => {});

describe("startDeadline", () => {
  it("counts down from the arrival, not below 0", () => {
    const clock = new ManualClock(1000);
    const deadline = startDeadline(clock, { budgetMs: 100, isStrict: true, arrivedAtMs: 970 });
    expect(deadline.remainingMs()).toBe(70);
    clock.advance(500);
    expect(deadline.remainingMs()).toBe(0);
  });

  it("aborts its signal, and a strict wait, at the deadline", async () => {
    const clock = new ManualClock();
    const deadline = startDeadline(clock, { budgetMs: 100, isStrict: true });
    const waiting = deadline.race(neverSettles);
    clock.advance(99);
    expect(deadline.signal.aborted).toBe(false);
    clock.advance(1);
    expect(deadline.signal.aborted).toBe(true);
    await expect(waiting).rejects.toMatchObject({ code: "deadline_exceeded" });
    await expect(deadline.race(neverSettles)).rejects.toMatchObject({ code: "deadline_exceeded" });
  });

  it("lets a first answer be late where the client named no deadline", async () => {
    const clock = new ManualClock();
    const deadline = startDeadline(clock, { budgetMs: 100, isStrict: false });
    const { promise, resolve } = Promise.withResolvers<string>();
    const waiting = deadline.race(promise);
    clock.advance(200);
    resolve("late");
    expect(await waiting).toBe("late");
  });

  it("ends when the client leaves, whether the deadline is strict or not", async () => {
    const client = new AbortController();
    const deadlines = [true, false].map((strict) =>
      startDeadline(new ManualClock(), {
        budgetMs: 100,
        isStrict: strict,
        disconnectSignal: client.signal,
      }),
    );
    const waiting = deadlines.map((deadline) => deadline.race(neverSettles));
    expect(deadlines.map(({ isClientDisconnected: isAbandoned }) => isAbandoned)).toEqual([
      false,
      false,
    ]);
    client.abort();
    expect(
      deadlines.map(({ isClientDisconnected: isAbandoned, signal }) => [
        isAbandoned,
        signal.aborted,
      ]),
    ).toEqual([
      [true, true],
      [true, true],
    ]);
    for (const one of waiting)
      await expect(one).rejects.toMatchObject({ code: "request_cancelled" });
  });

  it("has ended at once for a client that had left before", () => {
    const deadline = startDeadline(new ManualClock(), {
      budgetMs: 100,
      isStrict: true,
      disconnectSignal: AbortSignal.abort(),
    });
    expect([deadline.isClientDisconnected, deadline.signal.aborted]).toEqual([true, true]);
  });

  it("leaves no timer behind", () => {
    const clock = new ManualClock();
    const deadline = startDeadline(clock, { budgetMs: 100, isStrict: true });
    const { signal } = deadline;
    deadline.dispose();
    clock.advance(200);
    expect([signal.aborted, deadline.signal.aborted]).toEqual([false, false]);
  });

  it("leaves none where it was first waited for when all was over", () => {
    const clock = new ManualClock();
    const deadline = startDeadline(clock, { budgetMs: 100, isStrict: true });
    deadline.dispose();
    const { signal } = deadline;
    clock.advance(200);
    expect(signal.aborted).toBe(false);
  });

  it("says why nobody wants the answer any more, with no timer for it", () => {
    const clock = new ManualClock();
    const setTimer = vi.spyOn(clock, "setTimer");
    const client = new AbortController();
    const deadline = startDeadline(clock, {
      budgetMs: 100,
      isStrict: false,
      disconnectSignal: client.signal,
    });
    clock.advance(99);
    expect(deadline.error).toBeUndefined();
    clock.advance(1);
    expect(deadline.error).toMatchObject({ code: "deadline_exceeded" });
    client.abort();
    expect(deadline.error).toMatchObject({ code: "request_cancelled" });
    expect(setTimer).not.toHaveBeenCalled();
  });
});
