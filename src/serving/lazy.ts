// A value that an isolate loads on first use and then keeps.
//
// workerd forbids one request to await a promise of another, so later requests look again every few milliseconds instead.
// One load at a time: each would need an engine of its own, and an isolate has memory for few. The load goes on after its
// request has ended, so that the next one finds it done.

import type { Deadline } from "../cascade/deadline.ts";
import type { RequestContext } from "./request-context.ts";

export interface Lazy<Value> {
  /** @throws what the load throws, also to the requests that were waiting for it; the next request loads anew. */
  get(context: RequestContext, deadline: Deadline): Promise<Value>;
  /** Forgets this value, if it is still the current one. */
  drop(value: Value): void;
}

export interface LazyOptions {
  /** Between two looks at another request's load. */
  readonly pause?: () => Promise<void>;
  /** Looks after which that load is given up: its request was ended by the platform. */
  readonly maxLooks?: number;
}

type Load<Value> =
  | { readonly state: "running" }
  | { readonly state: "done"; readonly value: Value }
  | { readonly state: "failed"; readonly error: unknown };

const LOOK_EVERY_MS = 5;
const pauseForReal = () => new Promise<void>((resolve) => setTimeout(resolve, LOOK_EVERY_MS));

export function createLazy<Value>(
  load: () => Promise<Value>,
  options: LazyOptions = {},
): Lazy<Value> {
  const { pause = pauseForReal, maxLooks = 4_000 } = options;
  /** The last load; each one has an object of its own, replaced as it goes on. */
  let last: { load: Load<Value> } | undefined;

  async function start(): Promise<Value> {
    const own: { load: Load<Value> } = { load: { state: "running" } };
    last = own;
    try {
      const value = await load();
      own.load = { state: "done", value };
      return value;
    } catch (error) {
      own.load = { state: "failed", error };
      throw error;
    }
  }

  /** @returns undefined where that load has been given up */
  async function watch(other: {
    readonly load: Load<Value>;
  }): Promise<{ value: Value } | undefined> {
    for (let looks = 0; looks < maxLooks; looks++) {
      await pause();
      if (other.load.state === "done") return { value: other.load.value };
      if (other.load.state === "failed") throw other.load.error;
    }
    return undefined;
  }

  return {
    async get(context, deadline) {
      if (last?.load.state === "done") return last.load.value;
      const running = last?.load.state === "running" ? last : undefined;
      return await context.phases.measure("load", async () => {
        const watched = running && (await deadline.race(watch(running)));
        if (watched !== undefined) return watched.value;
        const own = start();
        context.waitUntil(own.catch(() => {}));
        return await deadline.race(own);
      });
    },
    drop(value) {
      if (last?.load.state === "done" && last.load.value === value) last = undefined;
    },
  };
}
