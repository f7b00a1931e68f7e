// The queue policy and the rules of mode `fixed`, one by one; triton-queue.test.ts has Triton's own tests of them.
// One file, because the rules form one specification.
import { describe, expect, it } from "vitest";
import { createExecutorFixture, flushEventLoop } from "./manual-session.ts";

describe("timeout actions", () => {
  it("reject: a request that waited too long is rejected immediately, and frees its place", async () => {
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
    // The first request is still running.
    expect(answers).toEqual({ 2: "request_expired" });
    send([3]);
    await endRun();
    await endRun();
    expect(firsts()).toEqual([[1], [3]]);
    expect(answers).toEqual({ 1: [1], 2: "request_expired", 3: [3] });
  });

  it("delay: the request moves behind the others of its priority, before the next priority, and is answered", async () => {
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
});

describe("a request's own timeout", () => {
  it("shortens the default, and never lengthens it", async () => {
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

  it("applies without a default, and is ignored if overriding is disabled", async () => {
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

  it("also bounds the execution, while the default bounds the queue time only", async () => {
    const { send, clock, answers, endRun } = createExecutorFixture({
      queue: { defaultTimeoutUs: 10_000 },
    });
    send([1]);
    send([2], { expiresAtMs: 8 });
    await flushEventLoop();
    // The second request starts here.
    await endRun();
    clock.advance(8);
    await flushEventLoop();
    expect(answers).toEqual({ 1: [1], 2: "request_expired" });
    send([3]);
    await endRun();
    clock.advance(20);
    await endRun();
    expect(answers).toEqual({ 1: [1], 2: "request_expired", 3: [3] });
  });
});

describe("an expired request", () => {
  it("never runs, even if its timer is late", async () => {
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

  it("is not rejected by an early timer", async () => {
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

  it("does not exist with the latest possible timeout", async () => {
    const { send, answers, endRun } = createExecutorFixture();
    send([1], { expiresAtMs: Number.MAX_SAFE_INTEGER / 1_000 });
    await endRun();
    expect(answers).toEqual({ 1: [1] });
  });
});

describe("the size of the queue", () => {
  it("counts the queued rows, and rejects the excess immediately", async () => {
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

  it("admits a single request of more rows while the queue is empty", async () => {
    const { send, answers, endRun } = createExecutorFixture({ queue: { maxQueueSize: 2 } });
    send([1]);
    send([2, 2, 2]);
    send([3]);
    await endRun();
    await endRun();
    expect(answers).toEqual({ 1: [1], 2: [2, 2, 2], 3: "queue_full" });
  });

  it("applies to each priority, so that low ones do not block high ones", async () => {
    const { send, answers, endRun } = createExecutorFixture({ queue: { maxQueueSize: 1 } });
    send([1]);
    send([2], { priority: 3 });
    send([3], { priority: 3 });
    send([4], { priority: 1 });
    for (let run = 0; run < 3; run++) await endRun();
    expect(answers).toEqual({ 1: [1], 2: [2], 3: "queue_full", 4: [4] });
  });

  it("excludes the rows of a disconnected client, which never run", async () => {
    const { send, answers, endRun, firsts } = createExecutorFixture({ queue: { maxQueueSize: 2 } });
    const client = new AbortController();
    send([1]);
    send([2, 2], { signal: client.signal });
    await flushEventLoop();
    client.abort();
    await flushEventLoop();
    expect(answers).toEqual({ 2: "request_cancelled" });
    send([3, 3]);
    await endRun();
    await endRun();
    expect(firsts()).toEqual([[1], [3, 3]]);
  });
});

describe("a batch", () => {
  it("without a delay, starts when the session is free", async () => {
    const { send, endRun, reasons, answers } = createExecutorFixture();
    [1, 2, 3].forEach((id) => send([id]));
    await endRun();
    await endRun();
    expect(reasons()).toEqual(["idle 1", "idle 2"]);
    expect(answers).toEqual({ 1: [1], 2: [2], 3: [3] });
  });

  it("starts immediately if it cannot grow: it is full, or the next request does not fit", async () => {
    const full = createExecutorFixture({ maxQueueDelayUs: 100_000, maxBatchRows: 3 });
    full.send([1, 1]);
    full.send([2]);
    const tooLarge = createExecutorFixture({ maxQueueDelayUs: 100_000, maxBatchRows: 3 });
    tooLarge.send([1, 1]);
    tooLarge.send([2, 2]);
    const otherShape = createExecutorFixture({ maxQueueDelayUs: 100_000 });
    otherShape.send([1]);
    otherShape.send([[2, 2]]);
    for (const { endRun } of [full, tooLarge, otherShape]) await endRun();
    expect({
      full: full.reasons(),
      tooLarge: tooLarge.reasons(),
      otherShape: otherShape.reasons(),
    }).toEqual({ full: ["full 3"], tooLarge: ["full 2"], otherShape: ["shape 1"] });
  });

  it("may grow again when the request that did not fit disconnects", async () => {
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

  it("takes higher priorities first, in order within each; an unknown priority is the default", async () => {
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

describe("preferred batch sizes", () => {
  it("start the largest preferred size immediately, while the remaining rows wait", async () => {
    const { send, endRun, clock, runs, reasons } = createExecutorFixture({
      preferredBatchRows: [2, 4],
      maxQueueDelayUs: 100_000,
    });
    send([1]);
    // Joins the first request, because 2 is a preferred size, too.
    send([2]);
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

  it("start a batch beyond every preferred size immediately", async () => {
    const { send, endRun, reasons } = createExecutorFixture({
      preferredBatchRows: [4],
      maxQueueDelayUs: 100_000,
    });
    send([1, 1, 1]);
    send([2, 2]);
    await endRun();
    expect(reasons()).toEqual(["full 5"]);
  });

  it("start a batch that shrinks to a preferred size immediately", async () => {
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
});

describe("the queue delay", () => {
  it("starts every queued request when it ends, of a preferred size or not", async () => {
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

  it("is measured from the oldest request", async () => {
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
});
