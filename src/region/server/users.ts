// Who is using what: something that is to go goes when its last user has left.

export interface Users<Item> {
  during<Result>(item: Item, work: (item: Item) => Promise<Result>): Promise<Result>;
  /** Nobody starts using it any more; it goes at once, or with its last user. */
  retire(item: Item): Promise<void>;
}

/** @param goes called once for each item that was retired, when nobody uses it */
export function createUsers<Item extends object>(goes: (item: Item) => Promise<void>): Users<Item> {
  const counts = new Map<Item, number>();
  const retired = new WeakSet<Item>();
  return {
    async during(item, work) {
      counts.set(item, (counts.get(item) ?? 0) + 1);
      try {
        return await work(item);
      } finally {
        const left = (counts.get(item) ?? 1) - 1;
        if (left > 0) counts.set(item, left);
        else {
          counts.delete(item);
          if (retired.has(item)) void goes(item);
        }
      }
    },
    async retire(item) {
      if (retired.has(item)) return;
      retired.add(item);
      if (!counts.has(item)) await goes(item);
    },
  };
}
