// Cache of loaded models: tracks their users and their memory, and evicts the least recently used one to make room.
//
// An entry in use is never unloaded; after its removal it stays until its last user ends. Within a memory budget, idle entries
// are evicted for a new load. If all entries are in use, the load waits for a limited time.

import type { Clock } from "../../core/clock.ts";
import { regionServerErrors } from "./errors.ts";

export interface ModelCacheEntry<Item> {
  readonly key: string;
  /** Absent while the item is being loaded. */
  readonly item: Item | undefined;
  readonly useCount: number;
  /** End of the last use, or creation of the entry if it was not used yet. */
  readonly lastUsedAtMs: number;
}

export interface LoadedItem<Item> {
  readonly item: Item;
  /** Memory of the item, measured after loading. */
  readonly memoryBytes: number;
}

export interface ModelCache<Item> {
  /** Returns the entry without using it; undefined if there is none. */
  get(key: string): ModelCacheEntry<Item> | undefined;
  all(): readonly ModelCacheEntry<Item>[];
  /**
   * Runs `work` with the item, which is loaded if necessary and stays loaded until `work` ends.
   * @throws what `load` and `work` throw
   */
  use<Result>(key: string, work: (item: Item) => Promise<Result> | Result): Promise<Result>;
  /** Removes the entry for new users. Resolves after unloading, or immediately if the entry is in use. */
  remove(key: string): Promise<void>;
  /** Unloads all entries, in use or not. */
  dispose(): Promise<void>;
}

export interface ModelCacheOptions<Item> {
  readonly clock: Clock;
  /** Limit of the memory of all entries; 0 disables it. */
  readonly memoryBudgetBytes: number;
  /** Maximum time that a load waits for memory. */
  readonly memoryTimeoutMs: number;
  /**
   * @param reserveMemory must be called once with the minimum memory, before allocating it
   * @throws model_too_large, no_room from `reserveMemory`
   */
  readonly load: (
    key: string,
    reserveMemory: (bytes: number) => Promise<void>,
  ) => Promise<LoadedItem<Item>>;
  readonly unload: (item: Item) => Promise<void>;
  readonly onEvict: (key: string, bytes: number) => void;
}

interface MutableEntry<Item> {
  readonly key: string;
  readonly loaded: Promise<Item>;
  item: Item | undefined;
  /** Memory in use, or reserved while the item is being loaded. */
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

export function createModelCache<Item>(options: ModelCacheOptions<Item>): ModelCache<Item> {
  const { clock, unload } = options;
  /** Ordered by last use, least recent first. */
  const entries = new Map<string, MutableEntry<Item>>();
  const memory = createMemoryBudget(options, entries, (entry) => void removeEntry(entry));
  const loadInto = createEntryLoader(options, memory);

  function create(key: string): MutableEntry<Item> {
    const { promise, resolve, reject } = Promise.withResolvers<Item>();
    promise.catch(() => {}); // The users of the entry handle its failure.
    const entry = createEntry(key, promise, clock.now());
    entries.set(key, entry);
    memory.add(entry);
    void loadInto(entry).then(resolve, (error: unknown) => {
      if (entries.get(key) === entry) entries.delete(key);
      memory.release(entry);
      reject(error);
    });
    return entry;
  }

  async function removeEntry(entry: MutableEntry<Item>): Promise<void> {
    entries.delete(entry.key);
    entry.isRemoved = true;
    if (entry.useCount === 0) await unloadEntry(entry);
  }

  async function unloadEntry(entry: MutableEntry<Item>): Promise<void> {
    if (entry.item !== undefined) await unload(entry.item);
    memory.release(entry);
  }

  async function use<Result>(
    key: string,
    work: (item: Item) => Promise<Result> | Result,
  ): Promise<Result> {
    const entry = entries.get(key) ?? create(key);
    entries.delete(key); // Reinserting moves the entry to the end, as the most recently used.
    entries.set(key, entry);
    entry.useCount++; // Counted before the first await, so that nothing can evict the entry.
    try {
      return await work(await entry.loaded);
    } finally {
      entry.useCount--;
      entry.lastUsedAtMs = clock.now();
      if (entry.useCount === 0 && entry.isRemoved && entry.item !== undefined)
        void unloadEntry(entry);
      memory.rebalance();
    }
  }

  return {
    get: (key) => entries.get(key),
    all: () => [...entries.values()],
    use,
    async remove(key) {
      const entry = entries.get(key);
      if (entry !== undefined) await removeEntry(entry);
    },
    async dispose() {
      entries.clear();
      await disposeEntries(memory.entries(), unload);
    },
  };
}

async function disposeEntries<Item>(
  entries: readonly MutableEntry<Item>[],
  unload: (item: Item) => Promise<void>,
): Promise<void> {
  for (const entry of entries) entry.isRemoved = true; // Entries that are still loading are unloaded afterwards.
  await Promise.allSettled(entries.map((entry) => entry.item !== undefined && unload(entry.item)));
}

const createEntry = <Item>(
  key: string,
  loaded: Promise<Item>,
  nowMs: number,
): MutableEntry<Item> => ({
  key,
  loaded,
  item: undefined,
  bytes: 0,
  useCount: 0,
  lastUsedAtMs: nowMs,
  isRemoved: false,
});

/** Returns the function that loads an entry's item within the memory budget. */
function createEntryLoader<Item>(
  { load, unload }: ModelCacheOptions<Item>,
  memory: ReturnType<typeof createMemoryBudget<Item>>,
) {
  /** Memory of each item when it was last loaded, which is more precise than its graph's size. */
  const measuredBytes = new Map<string, number>();

  return async function loadInto(entry: MutableEntry<Item>): Promise<Item> {
    const { item, memoryBytes } = await load(entry.key, (minBytes) =>
      memory.reserve(entry, Math.max(minBytes, measuredBytes.get(entry.key) ?? 0)),
    );
    measuredBytes.set(entry.key, memoryBytes);
    if (memory.exceedsBudget(memoryBytes)) {
      await unload(item);
      throw memory.tooLargeError(entry, memoryBytes);
    }
    entry.bytes = memoryBytes;
    entry.item = item;
    memory.rebalance();
    return item;
  };
}

const sumBytes = (entries: Iterable<{ readonly bytes: number }>): number =>
  [...entries].reduce((sum, { bytes }) => sum + bytes, 0);

/**
 * Keeps the cache within its memory budget.
 * @param cached entries that may be evicted, least recently used first
 * @param remove removes an entry from `cached` and unloads it
 */
function createMemoryBudget<Item>(
  { clock, memoryBudgetBytes: budgetBytes, memoryTimeoutMs, onEvict }: ModelCacheOptions<Item>,
  cached: ReadonlyMap<string, MutableEntry<Item>>,
  remove: (entry: MutableEntry<Item>) => void,
) {
  /** Entries that take memory, including removed ones that are not unloaded yet. */
  const inMemory = new Set<MutableEntry<Item>>();
  /** Reservations that wait for memory, in order of arrival. */
  const waiting = new Set<PendingReservation<Item>>();
  const exceedsBudget = (bytes: number) => budgetBytes > 0 && bytes > budgetBytes;
  const tooLargeError = ({ key }: MutableEntry<Item>, bytes: number) =>
    regionServerErrors.modelTooLarge(key, bytes, budgetBytes);

  async function reserve(entry: MutableEntry<Item>, bytes: number): Promise<void> {
    if (budgetBytes === 0) return;
    if (exceedsBudget(bytes)) throw tooLargeError(entry, bytes);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const reservation: PendingReservation<Item> = { entry, bytes, admit: resolve };
    waiting.add(reservation);
    const cancelTimer = clock.setTimer(() => {
      waiting.delete(reservation);
      reject(regionServerErrors.noRoom(entry.key, bytes));
      rebalance();
    }, memoryTimeoutMs);
    rebalance();
    await promise.finally(cancelTimer);
  }

  /** Evicts idle entries for items that turned out larger and for waiting reservations, and admits these in order. */
  function rebalance(): void {
    if (budgetBytes === 0) return;
    evictFor(0);
    for (;;) {
      const [next] = waiting;
      if (next === undefined) return;
      evictFor(next.bytes);
      if (sumBytes(inMemory) + next.bytes > budgetBytes) return;
      waiting.delete(next);
      next.entry.bytes = next.bytes;
      next.admit();
    }
  }

  function evictFor(bytes: number): void {
    for (const entry of chooseEvictions(inMemory, cached.values(), bytes, budgetBytes)) {
      onEvict(entry.key, entry.bytes);
      remove(entry);
    }
  }

  return {
    exceedsBudget,
    tooLargeError,
    reserve,
    rebalance,
    entries: () => [...inMemory],
    add: (entry: MutableEntry<Item>) => void inMemory.add(entry),
    release(entry: MutableEntry<Item>): void {
      inMemory.delete(entry);
      rebalance();
    },
  };
}

/** Returns the idle entries to evict so that further `bytes` fit, least recently used first. */
function chooseEvictions<Item>(
  inMemory: Iterable<MutableEntry<Item>>,
  cached: Iterable<MutableEntry<Item>>,
  bytes: number,
  budgetBytes: number,
): readonly MutableEntry<Item>[] {
  const staying = new Set([...inMemory].filter(({ isRemoved }) => !isRemoved)); // Removed entries free their memory anyway.
  const idle = [...cached].filter(({ item, useCount }) => item !== undefined && useCount === 0);
  // Eviction is pointless if the reservation would have to wait all the same.
  if (bytes > 0 && sumBytes(staying) - sumBytes(idle) + bytes > budgetBytes) return [];
  return idle.filter((entry) => {
    const isEvicted = sumBytes(staying) + bytes > budgetBytes;
    if (isEvicted) staying.delete(entry);
    return isEvicted;
  });
}
