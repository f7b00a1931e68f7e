// A value that an isolate loads on first use and then keeps.
// workerd forbids one request to await a promise of another, so concurrent first requests each load for themselves and
// the first to finish wins; the load goes on after its request has ended, so that the next one finds it done.

import type { Deadline } from "../cascade/deadline.ts";
import type { RequestContext } from "./request-context.ts";

export interface Lazy<Value> {
  get(context: RequestContext, deadline: Deadline): Promise<Value>;
  /** Forgets this value, if it is still the current one; the next `get` loads anew. */
  drop(value: Value): void;
}

export function createLazy<Value>(load: () => Promise<Value>): Lazy<Value> {
  let current: { readonly value: Value } | undefined;
  return {
    async get(context, deadline) {
      if (current !== undefined) return current.value;
      const loading = load().then((value) => (current ??= { value }).value);
      context.waitUntil(loading.catch(() => {}));
      return await context.phases.measure("load", () => deadline.race(loading));
    },
    drop(value) {
      if (current?.value === value) current = undefined;
    },
  };
}
