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
  evict(value: Value): void;
}

export interface LazyOptions {
  /** Between two looks at another request's load. */
  readonly pause?: () => Promise<void>;
  /** Looks after which that load is given up: its request was ended by the platform. */
  readonly maxPolls?: number;
}

type Load<Value> =
  | { readonly status: "running" }
  | { readonly status: "done"; readonly value: Value }
  | { readonly status: "failed"; readonly error: unknown };

const POLL_INTERVAL_MS = 5;
const sleepPollInterval = () =>
  new Promise<void>((resolve) => setTimeout(resolve, POLL_INTERVAL_MS));

export function createLazy<Value>(
  load: () => Promise<Value>,
  options: LazyOptions = {},
): Lazy<Value> {
  const { pause = sleepPollInterval, maxPolls: maxLooks = 4_000 } = options;
  /** The last load; each one has an object of its own, replaced as it goes on. */
  let last: { load: Load<Value> } | undefined;

  async function start(): Promise<Value> {
    const own: { load: Load<Value> } = { load: { status: "running" } };
    last = own;
    try {
      const value = await load();
      own.load = { status: "done", value };
      return value;
    } catch (error) {
      own.load = { status: "failed", error };
      throw error;
    }
  }

  /** @returns undefined where that load has been given up */
  async function watch(other: {
    readonly load: Load<Value>;
  }): Promise<{ value: Value } | undefined> {
    for (let looks = 0; looks < maxLooks; looks++) {
      await pause();
      if (other.load.status === "done") return { value: other.load.value };
      if (other.load.status === "failed") throw other.load.error;
    }
    return undefined;
  }

  return {
    async get(context, deadline) {
      if (last?.load.status === "done") return last.load.value;
      const running = last?.load.status === "running" ? last : undefined;
      return await context.phases.measure("load", async () => {
        const watched = running && (await deadline.race(watch(running)));
        if (watched !== undefined) return watched.value;
        const own = start();
        context.waitUntil(own.catch(() => {}));
        return await deadline.race(own);
      });
    },
    evict(value) {
      if (last?.load.status === "done" && last.load.value === value) last = undefined;
    },
  };
}
