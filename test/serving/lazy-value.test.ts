// Lazy value: concurrent requests, failures, deadlines and eviction.
import { describe, expect, it } from "vitest";
import { startDeadline } from "../../src/cascade/deadline.ts";
import { ManualClock } from "../../src/core/clock.ts";
import { createLazy } from "../../src/serving/lazy-value.ts";
import { createRequestContext } from "../support/request-context.ts";

/** A lazy value whose loads and polls the test settles. */
function createLazyFixture(maxPolls?: number) {
  const clock = new ManualClock();
  const loads: PromiseWithResolvers<string>[] = [];
  const background: Promise<unknown>[] = [];
  const polls: (() => void)[] = [];
  const lazy = createLazy(
    () => {
      const load = Promise.withResolvers<string>();
      loads.push(load);
      return load.promise;
    },
    {
      pause: () => new Promise((resolve) => polls.push(resolve)),
      ...(maxPolls === undefined ? {} : { maxPolls }),
    },
  );
  const context = {
    ...createRequestContext(clock),
    waitUntil: (work: Promise<unknown>) => void background.push(work),
  };
  const get = (isStrict = false) =>
    lazy.get(context, startDeadline(clock, { budgetMs: 100, isStrict }));
  /** Lets every waiting request poll once. */
  const poll = async () => {
    for (const resolve of polls.splice(0)) resolve();
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { clock, loads, background, lazy, get, poll };
}

describe("createLazy", () => {
  it("loads once for concurrent requests, and keeps the value", async () => {
    const { loads, get, poll } = createLazyFixture();
    const both = Promise.all([get(), get()]);
    loads[0]?.resolve("engine");
    await poll();
    expect(await both).toEqual(["engine", "engine"]);
    expect(await get()).toBe("engine");
    expect(loads).toHaveLength(1);
  });

  it("rejects the waiting requests after a failed load, and loads again for the next", async () => {
    const { loads, get, poll } = createLazyFixture();
    const both = Promise.allSettled([get(), get()]);
    loads[0]?.reject(new Error("store is down"));
    await poll();
    expect((await both).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    const next = get();
    loads[1]?.resolve("engine");
    expect(await next).toBe("engine");
  });

  it("continues to load after a strict deadline has ended its request", async () => {
    const { clock, loads, background, get } = createLazyFixture();
    const strictRequest = get(true);
    clock.advance(100);
    await expect(strictRequest).rejects.toMatchObject({ code: "deadline_exceeded" });
    expect(background).toHaveLength(1);
    loads[0]?.resolve("engine");
    await background[0];
    expect(await get()).toBe("engine");
  });

  it("loads again if another load never ends", async () => {
    const { loads, get, poll } = createLazyFixture(3);
    void get();
    const waiting = get();
    for (let polls = 0; polls < 3; polls++) await poll();
    loads[1]?.resolve("engine");
    expect(await waiting).toBe("engine");
  });

  it("loads again after the eviction of the current value, and only of that", async () => {
    const { loads, lazy, get } = createLazyFixture();
    const first = get();
    loads[0]?.resolve("engine");
    await first;
    lazy.evict("another");
    expect(await get()).toBe("engine");
    lazy.evict("engine");
    const second = get();
    loads[1]?.resolve("fresh engine");
    expect(await second).toBe("fresh engine");
  });
});
