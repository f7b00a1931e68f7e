// What is loaded: by whom it is used, how many bytes it holds, and what goes first when there is no room.
//
// One that is in use stays, also when it was removed: it goes with its last user. Within a budget, what nobody uses and was
// used least recently makes room for what is to be loaded; where all is in use, the load waits for a while.

import { regionServerErrors } from "./errors.ts";
import type { Clock } from "../../core/clock.ts";

export interface ModelCacheEntry<Item> {
  readonly key: string;
  /** Absent while it is being loaded. */
  readonly item: Item | undefined;
  readonly useCount: number;
  /** When its last user left; when it was asked for, until then. */
  readonly lastUsedAtMs: number;
}

export interface LoadedItem<Item> {
  readonly item: Item;
  /** That it holds, now that it is there. */
  readonly memoryBytes: number;
}

export interface ModelCache<Item> {
  /** Undefined unless it is there; not a use of it. */
  get(key: string): ModelCacheEntry<Item> | undefined;
  all(): readonly ModelCacheEntry<Item>[];
  /**
   * Does `work` with the item, loading it first unless it is there; it stays as long as that takes.
   * @throws what `load` and `work` throw
   */
  use<Result>(key: string, work: (item: Item) => Promise<Result> | Result): Promise<Result>;
  /** Nobody starts using it any more. Resolves when it has gone, or at once where someone is still using it. */
  remove(key: string): Promise<void>;
  /** All of them, used or not. */
  dispose(): Promise<void>;
}

export interface ModelCacheOptions<Item> {
  readonly clock: Clock;
  /** For all of them together; 0: no limit. */
  readonly memoryBudgetBytes: number;
  /** How long a load waits for room. */
  readonly memoryTimeoutMs: number;
  /**
   * @param makeRoom to be called once, with the bytes that it will take at least, before it takes them
   * @throws model_too_large, no_room from `makeRoom`
   */
  readonly load: (
    key: string,
    makeRoom: (bytes: number) => Promise<void>,
  ) => Promise<LoadedItem<Item>>;
  readonly unload: (item: Item) => Promise<void>;
  readonly onEvict: (key: string, bytes: number) => void;
}

interface MutableEntry<Item> {
  readonly key: string;
  readonly loaded: Promise<Item>;
  item: Item | undefined;
  /** Held, or set aside for it while it is being loaded. */
  bytes: number;
  useCount: number;
  lastUsedAtMs: number;
  isRemoved: boolean;
}

interface PendingReservation<Item> {
  readonly entry: MutableEntry<Item>;
  readonly bytes: number;
  readonly admit: () => void;
}

export function createModelCache<Item>({
  clock,
  memoryBudgetBytes: budgetBytes,
  memoryTimeoutMs: roomTimeoutMs,
  load,
  unload,
  onEvict: onEvicted,
}: ModelCacheOptions<Item>): ModelCache<Item> {
  /** The least recently used first. */
  const entries = new Map<string, MutableEntry<Item>>();
  /** All that takes memory: those too that were removed and have not gone yet. */
  const inMemory = new Set<MutableEntry<Item>>();
  /** For room, in the order in which they came. */
  const waiting = new Set<PendingReservation<Item>>();
  /** What each took when it was loaded last: more than a graph's size tells. */
  const known = new Map<string, number>();

  function create(key: string): MutableEntry<Item> {
    const { promise, resolve, reject } = Promise.withResolvers<Item>();
    promise.catch(() => {}); // its users hear of it
    const entry: MutableEntry<Item> = {
      key,
      loaded: promise,
      item: undefined,
      bytes: 0,
      useCount: 0,
      lastUsedAtMs: clock.now(),
      isRemoved: false,
    };
    entries.set(key, entry);
    inMemory.add(entry);
    void loadInto(entry).then(resolve, (error: unknown) => {
      if (entries.get(key) === entry) entries.delete(key);
      leave(entry);
      reject(error);
    });
    return entry;
  }

  async function loadInto(entry: MutableEntry<Item>): Promise<Item> {
    const { item, memoryBytes: bytes } = await load(entry.key, (needed) =>
      roomFor(entry, Math.max(needed, known.get(entry.key) ?? 0)),
    );
    known.set(entry.key, bytes);
    if (budgetBytes > 0 && bytes > budgetBytes) {
      await unload(item);
      throw regionServerErrors.modelTooLarge(entry.key, bytes, budgetBytes);
    }
    entry.bytes = bytes;
    entry.item = item;
    makeRoom();
    return item;
  }

  async function roomFor(entry: MutableEntry<Item>, bytes: number): Promise<void> {
    if (budgetBytes === 0) return;
    if (bytes > budgetBytes) throw regionServerErrors.modelTooLarge(entry.key, bytes, budgetBytes);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const place: PendingReservation<Item> = { entry, bytes, admit: resolve };
    waiting.add(place);
    const cancel = clock.setTimer(() => {
      waiting.delete(place);
      reject(regionServerErrors.noRoom(entry.key, bytes));
      makeRoom();
    }, roomTimeoutMs);
    makeRoom();
    await promise.finally(cancel);
  }

  /** Evicts for what has become larger than it was thought to be, and for what waits, and lets that in, in order. */
  function makeRoom(): void {
    if (budgetBytes === 0) return;
    evictFor(0);
    for (;;) {
      const [next] = waiting;
      if (next === undefined) return;
      evictFor(next.bytes);
      if (heldBytes(inMemory) + next.bytes > budgetBytes) return;
      waiting.delete(next);
      next.entry.bytes = next.bytes;
      next.admit();
    }
  }

  function evictFor(bytes: number): void {
    const staying = new Set([...inMemory].filter(({ isRemoved }) => !isRemoved)); // what goes already will be room
    const idle = [...entries.values()].filter(
      ({ item, useCount: users }) => item !== undefined && users === 0,
    );
    // Nothing goes for what would have to wait all the same.
    if (bytes > 0 && heldBytes(staying) - heldBytes(idle) + bytes > budgetBytes) return;
    for (const entry of idle) {
      if (heldBytes(staying) + bytes <= budgetBytes) return;
      staying.delete(entry);
      onEvicted(entry.key, entry.bytes);
      void removeEntry(entry);
    }
  }

  const heldBytes = (some: Iterable<MutableEntry<Item>>) =>
    [...some].reduce((sum, one) => sum + one.bytes, 0);

  async function removeEntry(entry: MutableEntry<Item>): Promise<void> {
    entries.delete(entry.key);
    entry.isRemoved = true;
    if (entry.useCount === 0) await go(entry);
  }

  async function go(entry: MutableEntry<Item>): Promise<void> {
    if (entry.item !== undefined) await unload(entry.item);
    leave(entry);
  }

  function leave(entry: MutableEntry<Item>): void {
    inMemory.delete(entry);
    makeRoom();
  }

  return {
    get: (key) => entries.get(key),
    all: () => [...entries.values()],

    async use(key, work) {
      const entry = entries.get(key) ?? create(key);
      entries.delete(key); // and to the end: the most recently used
      entries.set(key, entry);
      entry.useCount++; // from now on, so that nothing can evict it before `work` has it
      try {
        return await work(await entry.loaded);
      } finally {
        entry.useCount--;
        entry.lastUsedAtMs = clock.now();
        if (entry.useCount === 0 && entry.isRemoved && entry.item !== undefined) void go(entry);
        makeRoom();
      }
    },

    async remove(key) {
      const entry = entries.get(key);
      if (entry !== undefined) await removeEntry(entry);
    },

    async dispose() {
      entries.clear();
      const all = [...inMemory];
      for (const entry of all) entry.isRemoved = true; // what is still being loaded goes when it is there
      await Promise.allSettled(all.map((entry) => entry.item !== undefined && unload(entry.item)));
    },
  };
}
