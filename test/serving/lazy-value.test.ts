import { describe, expect, it } from "vitest";
import { startDeadline } from "../../src/cascade/deadline.ts";
import { ManualClock } from "../../src/core/clock.ts";
import { createLazy } from "../../src/serving/lazy-value.ts";
import { createRequestContext } from "../support/request-context.ts";

/** A load that ends when the test says so, and requests for it. */
function createLazyFixture(maxLooks?: number) {
  const clock = new ManualClock();
  const loads: PromiseWithResolvers<string>[] = [];
  const kept: Promise<unknown>[] = [];
  const looks: (() => void)[] = [];
  const lazy = createLazy(
    () => {
      const load = Promise.withResolvers<string>();
      loads.push(load);
      return load.promise;
    },
    {
      pause: () => new Promise((resolve) => looks.push(resolve)),
      ...(maxLooks === undefined ? {} : { maxPolls: maxLooks }),
    },
  );
  const context = {
    ...createRequestContext(clock),
    waitUntil: (work: Promise<unknown>) => void kept.push(work),
  };
  const get = (strict = false) =>
    lazy.get(context, startDeadline(clock, { budgetMs: 100, isStrict: strict }));
  /** Lets every waiting request look once. */
  const look = async () => {
    for (const resolve of looks.splice(0)) resolve();
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { clock, loads, kept, lazy, get, look };
}

describe("createLazy", () => {
  it("loads once for requests that come together, and keeps the value", async () => {
    const { loads, get, look } = createLazyFixture();
    const both = Promise.all([get(), get()]);
    loads[0]?.resolve("engine");
    await look();
    expect(await both).toEqual(["engine", "engine"]);
    expect(await get()).toBe("engine");
    expect(loads).toHaveLength(1);
  });

  it("fails the requests that waited, and loads anew for the next", async () => {
    const { loads, get, look } = createLazyFixture();
    const both = Promise.allSettled([get(), get()]);
    loads[0]?.reject(new Error("store is down"));
    await look();
    expect((await both).map((one) => one.status)).toEqual(["rejected", "rejected"]);
    const next = get();
    loads[1]?.resolve("engine");
    expect(await next).toBe("engine");
  });

  it("goes on loading after a strict deadline has ended its request", async () => {
    const { clock, loads, kept, get } = createLazyFixture();
    const hurried = get(true);
    clock.advance(100);
    await expect(hurried).rejects.toMatchObject({ code: "deadline_exceeded" });
    expect(kept).toHaveLength(1);
    loads[0]?.resolve("engine");
    await kept[0];
    expect(await get()).toBe("engine");
  });

  it("takes over from a load that never ends", async () => {
    const { loads, get, look } = createLazyFixture(3);
    void get();
    const waiting = get();
    for (let looks = 0; looks < 3; looks++) await look();
    loads[1]?.resolve("engine");
    expect(await waiting).toBe("engine");
  });

  it("loads anew after a drop of the current value, and only of that", async () => {
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
