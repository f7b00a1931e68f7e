// The queue's policy and the rules of `fixed`, one by one. Triton's own tests of them: triton-queue.test.ts.
import { describe, expect, it } from "vitest";
import { createExecutorFixture, flushEventLoop } from "./manual-session.ts";

describe("timeouts", () => {
  it("reject: work that waited too long is refused at that moment, and gives its place free", async () => {
    const { send, clock, answers, endRun, firsts } = createExecutorFixture({
      queue: { defaultTimeoutUs: 10_000, maxQueueSize: 1 },
    });
    send([1]);
    send([2]);
    await flushEventLoop();
    clock.advance(9);
    await flushEventLoop();
    expect(answers).toEqual({});
    clock.advance(1);
    await flushEventLoop();
    expect(answers).toEqual({ 2: "request_expired" }); // while the first still runs
    send([3]);
    await endRun();
    await endRun();
    expect(firsts()).toEqual([[1], [3]]);
    expect(answers).toEqual({ 1: [1], 2: "request_expired", 3: [3] });
  });

  it("delay: it goes behind the others of its priority, before those of the next, and is answered", async () => {
    const { send, clock, answers, endRun, firsts } = createExecutorFixture({
      maxBatchRows: 1,
      queue: { timeoutAction: "delay", defaultTimeoutUs: 10_000 },
    });
    send([1]);
    send([2]);
    send([3]);
    await flushEventLoop();
    clock.advance(11);
    send([4]);
    send([5], { priority: 3 });
    for (let run = 0; run < 5; run++) await endRun();
    expect(firsts()).toEqual([[1], [4], [2], [3], [5]]);
    expect(Object.keys(answers)).toHaveLength(5);
  });

  it("a work's own timeout shortens the default, and never lengthens it", async () => {
    const { send, clock, answers } = createExecutorFixture({ queue: { defaultTimeoutUs: 10_000 } });
    send([1]);
    send([2], { expiresAtMs: 5 });
    send([3], { expiresAtMs: 50 });
    await flushEventLoop();
    clock.advance(5);
    await flushEventLoop();
    expect(answers).toEqual({ 2: "request_expired" });
    clock.advance(5);
    await flushEventLoop();
    expect(answers).toEqual({ 2: "request_expired", 3: "request_expired" });
  });

  it("a work's own counts without a default, and not at all where it may not override", async () => {
    const free = createExecutorFixture();
    const bound = createExecutorFixture({
      queue: { defaultTimeoutUs: 10_000, allowTimeoutOverride: false },
    });
    for (const { send, clock } of [free, bound]) {
      send([1]);
      send([2], { expiresAtMs: 5 });
      await flushEventLoop();
      clock.advance(5);
      await flushEventLoop();
    }
    expect(free.answers).toEqual({ 2: "request_expired" });
    expect(bound.answers).toEqual({});
    bound.clock.advance(5);
    await flushEventLoop();
    expect(bound.answers).toEqual({ 2: "request_expired" });
  });

  it("the default bounds the waiting alone; a work's own is also that of its answer", async () => {
    const { send, clock, answers, endRun } = createExecutorFixture({
      queue: { defaultTimeoutUs: 10_000 },
    });
    send([1]);
    send([2], { expiresAtMs: 8 });
    await flushEventLoop();
    await endRun(); // the second runs now
    clock.advance(8);
    await flushEventLoop();
    expect(answers).toEqual({ 1: [1], 2: "request_expired" });
    send([3]);
    await endRun();
    clock.advance(20);
    await endRun();
    expect(answers).toEqual({ 1: [1], 2: "request_expired", 3: [3] });
  });

  it("what expired never runs, not even when its timer is late", async () => {
    const { send, clock, answers, endRun, firsts } = createExecutorFixture();
    send([1]);
    send([2], { expiresAtMs: 5 });
    send([3]);
    await flushEventLoop();
    clock.setTimer = () => () => {};
    clock.now = () => 6;
    await endRun();
    expect(firsts()).toEqual([[1], [3]]);
    expect(answers).toMatchObject({ 2: "request_expired" });
  });

  it("and a timer that is early refuses nothing", async () => {
    const { send, clock, answers } = createExecutorFixture();
    const setTimer = clock.setTimer.bind(clock);
    clock.setTimer = (callback, delayMs) => setTimer(callback, Math.max(1, delayMs - 1));
    send([1]);
    send([2], { expiresAtMs: 5 });
    await flushEventLoop();
    clock.advance(4);
    await flushEventLoop();
    expect(answers).toEqual({});
    clock.advance(1);
    await flushEventLoop();
    expect(answers).toEqual({ 2: "request_expired" });
  });

  it("as far away as they can be, they do not fire", async () => {
    const { send, answers, endRun } = createExecutorFixture();
    send([1], { expiresAtMs: Number.MAX_SAFE_INTEGER / 1_000 });
    await endRun();
    expect(answers).toEqual({ 1: [1] });
  });
});

describe("the size of the queue", () => {
  it("counts the rows that wait, and refuses at once", async () => {
    const { send, answers, endRun } = createExecutorFixture({ queue: { maxQueueSize: 4 } });
    send([1]);
    send([2, 2, 2]);
    send([3, 3]);
    send([4]);
    await flushEventLoop();
    expect(answers).toEqual({ 3: "queue_full" });
    await endRun();
    await endRun();
    expect(answers).toEqual({ 1: [1], 2: [2, 2, 2], 3: "queue_full", 4: [4] });
  });

  it("takes a single work of more rows where nothing waits", async () => {
    const { send, answers, endRun } = createExecutorFixture({ queue: { maxQueueSize: 2 } });
    send([1]);
    send([2, 2, 2]);
    send([3]);
    await endRun();
    await endRun();
    expect(answers).toEqual({ 1: [1], 2: [2, 2, 2], 3: "queue_full" });
  });

  it("is that of each priority: low ones do not keep high ones out", async () => {
    const { send, answers, endRun } = createExecutorFixture({ queue: { maxQueueSize: 1 } });
    send([1]);
    send([2], { priority: 3 });
    send([3], { priority: 3 });
    send([4], { priority: 1 });
    for (let run = 0; run < 3; run++) await endRun();
    expect(answers).toEqual({ 1: [1], 2: [2], 3: "queue_full", 4: [4] });
  });

  it("a client that leaves gives its places free, and is never run", async () => {
    const { send, answers, endRun, firsts } = createExecutorFixture({ queue: { maxQueueSize: 2 } });
    const client = new AbortController();
    send([1]);
    send([2, 2], { signal: client.signal });
    await flushEventLoop();
    client.abort();
    await flushEventLoop();
    expect(answers).toEqual({ 2: "request_cancelled" }); // at once
    send([3, 3]);
    await endRun();
    await endRun();
    expect(firsts()).toEqual([[1], [3, 3]]);
  });
});

describe("batches", () => {
  it("without a delay, what waits goes when the session is free", async () => {
    const { send, endRun, reasons, answers } = createExecutorFixture();
    [1, 2, 3].forEach((id) => send([id]));
    await endRun();
    await endRun();
    expect(reasons()).toEqual(["idle 1", "idle 2"]);
    expect(answers).toEqual({ 1: [1], 2: [2], 3: [3] });
  });

  it("the largest preferred size that can be formed goes at once; what is left waits", async () => {
    const { send, endRun, clock, runs, reasons } = createExecutorFixture({
      preferredBatchRows: [2, 4],
      maxQueueDelayUs: 100_000,
    });
    send([1]);
    send([2]); // goes with the first: 2 is a size, too
    await flushEventLoop();
    [3, 4, 5, 6, 7].forEach((id) => send([id]));
    await endRun();
    await endRun();
    expect(reasons()).toEqual(["preferred 2", "preferred 4"]);
    clock.advance(99);
    expect(runs).toHaveLength(2);
    clock.advance(1);
    await endRun();
    expect(reasons().slice(2)).toEqual(["delay 1"]);
  });

  it("beyond every preferred size it goes at once, too", async () => {
    const { send, endRun, reasons } = createExecutorFixture({
      preferredBatchRows: [4],
      maxQueueDelayUs: 100_000,
    });
    send([1, 1, 1]);
    send([2, 2]);
    await endRun();
    expect(reasons()).toEqual(["full 5"]);
  });

  it("past the delay all go, a preferred size or not", async () => {
    const { send, clock, endRun, reasons } = createExecutorFixture({
      preferredBatchRows: [2],
      maxQueueDelayUs: 100_000,
    });
    send([1, 1]);
    [2, 3, 4].forEach((id) => send([id]));
    await flushEventLoop();
    clock.advance(100);
    await endRun();
    await endRun();
    expect(reasons()).toEqual(["preferred 2", "delay 3"]);
  });

  it("the delay is that of the oldest", async () => {
    const { send, clock, runs, endRun, reports } = createExecutorFixture({
      maxQueueDelayUs: 100_000,
    });
    send([1]);
    await flushEventLoop();
    clock.advance(60);
    send([2]);
    await flushEventLoop();
    clock.advance(39);
    expect(runs).toEqual([]);
    clock.advance(1);
    await endRun();
    expect(reports).toMatchObject([{ reason: "delay", requestCount: 2, queueTimesMs: [100, 40] }]);
  });

  it("one that cannot grow goes at once: full, or the next does not fit it", async () => {
    const full = createExecutorFixture({ maxQueueDelayUs: 100_000, maxBatchRows: 3 });
    full.send([1, 1]);
    full.send([2]);
    const tooLarge = createExecutorFixture({ maxQueueDelayUs: 100_000, maxBatchRows: 3 });
    tooLarge.send([1, 1]);
    tooLarge.send([2, 2]);
    const other = createExecutorFixture({ maxQueueDelayUs: 100_000 });
    other.send([1]);
    other.send([[2, 2]]);
    for (const { endRun } of [full, tooLarge, other]) await endRun();
    expect([full.reasons(), tooLarge.reasons(), other.reasons()]).toEqual([
      ["full 3"],
      ["full 2"],
      ["shape 1"],
    ]);
  });

  it("when the one that did not fit leaves, the batch may grow again", async () => {
    const { send, endRun, reasons, answers } = createExecutorFixture();
    const client = new AbortController();
    send([1]);
    send([2]);
    send([[3, 3]], { signal: client.signal });
    send([4]);
    await flushEventLoop();
    client.abort();
    await endRun();
    await endRun();
    expect(reasons()).toEqual(["idle 1", "idle 2"]);
    expect(answers).toEqual({ 1: [1], 2: [2], 3: "request_cancelled", 4: [4] });
  });

  it("what is left goes at once when it becomes a preferred size", async () => {
    const { send, runs, endRun, reasons } = createExecutorFixture({
      preferredBatchRows: [2, 4],
      maxQueueDelayUs: 100_000,
    });
    const client = new AbortController();
    send([1], { signal: client.signal });
    send([2, 2]);
    await flushEventLoop();
    expect(runs).toEqual([]);
    client.abort();
    await endRun();
    expect(reasons()).toEqual(["preferred 2"]);
  });

  it("higher priorities go first, and order is kept within one; an unknown one is the default", async () => {
    const { send, endRun, firsts } = createExecutorFixture({ maxBatchRows: 2 });
    send([1]);
    send([2], { priority: 3 });
    send([3]);
    send([4], { priority: 1 });
    send([5], { priority: 99 });
    send([6], { priority: 1 });
    for (let run = 0; run < 4; run++) await endRun();
    expect(firsts()).toEqual([[1], [4, 6], [3, 5], [2]]);
  });
});
