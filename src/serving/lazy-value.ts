// Lazy value: loads on first use and stays in the isolate.
//
// workerd forbids awaiting a promise of another request, so concurrent requests poll every few milliseconds. Only one load runs
// at a time, because each may need its own engine and an isolate has memory for few. The load continues after its request has
// ended, so that the next request finds the value.

import type { Deadline } from "../cascade/deadline.ts";
import type { RequestContext } from "./request-context.ts";

export interface Lazy<Value> {
  /** @throws the load's error, in all requests that wait for it; the next request loads again */
  get(context: RequestContext, deadline: Deadline): Promise<Value>;
  /** Evicts the value if it is still the current one. */
  evict(value: Value): void;
}

export interface LazyOptions {
  /** Waits between two polls of another request's load. */
  readonly pause?: () => Promise<void>;
  /** Polls after which a load counts as lost, because the platform ended its request. */
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
  const { pause = sleepPollInterval, maxPolls = 4_000 } = options;
  /** Latest load. Each load mutates only its own object, so that a lost load cannot overwrite a later one. */
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

  /** @returns undefined if that load is lost */
  async function watch(other: {
    readonly load: Load<Value>;
  }): Promise<{ value: Value } | undefined> {
    for (let polls = 0; polls < maxPolls; polls++) {
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
        const result = running && (await deadline.race(watch(running)));
        if (result !== undefined) return result.value;
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
