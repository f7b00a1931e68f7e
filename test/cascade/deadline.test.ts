// Deadline: time budget, disconnects and disposal.
import { describe, expect, it, vi } from "vitest";
import { startDeadline } from "../../src/cascade/deadline.ts";
import { ManualClock } from "../../src/core/clock.ts";

const neverSettles = new Promise<never>(() => {});

describe("startDeadline", () => {
  it("counts down from the arrival to 0", () => {
    const clock = new ManualClock(1000);
    const deadline = startDeadline(clock, { budgetMs: 100, isStrict: true, arrivedAtMs: 970 });
    expect(deadline.remainingMs()).toBe(70);
    clock.advance(500);
    expect(deadline.remainingMs()).toBe(0);
  });

  it("aborts its signal and a strict wait at the deadline", async () => {
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

  it("waits beyond a deadline that is not strict", async () => {
    const clock = new ManualClock();
    const deadline = startDeadline(clock, { budgetMs: 100, isStrict: false });
    const { promise, resolve } = Promise.withResolvers<string>();
    const waiting = deadline.race(promise);
    clock.advance(200);
    resolve("late");
    expect(await waiting).toBe("late");
  });
});

describe("a deadline with a disconnect signal", () => {
  it("ends when the client disconnects, strict or not", async () => {
    const client = new AbortController();
    const deadlines = [true, false].map((isStrict) =>
      startDeadline(new ManualClock(), {
        budgetMs: 100,
        isStrict,
        disconnectSignal: client.signal,
      }),
    );
    const waiting = deadlines.map((deadline) => deadline.race(neverSettles));
    for (const deadline of deadlines) expect(deadline.isClientDisconnected).toBe(false);
    client.abort();
    for (const deadline of deadlines)
      expect(deadline).toMatchObject({ isClientDisconnected: true, signal: { aborted: true } });
    for (const wait of waiting)
      await expect(wait).rejects.toMatchObject({ code: "request_cancelled" });
  });

  it("has ended immediately for a client that has disconnected before", () => {
    const deadline = startDeadline(new ManualClock(), {
      budgetMs: 100,
      isStrict: true,
      disconnectSignal: AbortSignal.abort(),
    });
    expect(deadline).toMatchObject({ isClientDisconnected: true, signal: { aborted: true } });
  });
});

describe("the timer of a deadline", () => {
  it("stops its timer on disposal", () => {
    const clock = new ManualClock();
    const deadline = startDeadline(clock, { budgetMs: 100, isStrict: true });
    const { signal } = deadline;
    deadline.dispose();
    clock.advance(200);
    expect(signal.aborted).toBe(false);
    expect(deadline.signal.aborted).toBe(false);
  });

  it("starts no timer after disposal", () => {
    const clock = new ManualClock();
    const deadline = startDeadline(clock, { budgetMs: 100, isStrict: true });
    deadline.dispose();
    const { signal } = deadline;
    clock.advance(200);
    expect(signal.aborted).toBe(false);
  });

  it("reports its error without a timer", () => {
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
