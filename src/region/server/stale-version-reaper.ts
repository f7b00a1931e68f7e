// Unloads stale versions, which were loaded once and have since been superseded. A version is unloaded only after some time
// without requests, because edges keep requesting the version that they know by number.

import type { Clock } from "../../core/clock.ts";

export interface CachedVersion {
  readonly key: string;
  readonly model: string;
  readonly version: number;
  readonly isInUse: boolean;
  readonly lastUsedAtMs: number;
}

export interface StaleVersionReaperOptions {
  readonly clock: Clock;
  readonly idleMs: number;
  readonly listLoaded: () => readonly CachedVersion[];
  /** Returns the versions of a model that an alias or the version policy references. */
  readonly listReferenced: (model: string) => Promise<ReadonlySet<number>>;
  readonly unload: (key: string) => Promise<void>;
}

export interface StaleVersionReaper {
  /** Schedules a check. Call it after each load. */
  schedule(): void;
  stop(): void;
}

export function createStaleVersionReaper({
  clock,
  idleMs,
  listLoaded,
  listReferenced,
  unload,
}: StaleVersionReaperOptions): StaleVersionReaper {
  let stop: (() => void) | undefined;

  /** Lists models with several versions. A model's only version is never stale, whatever its number. */
  const modelsWithSeveral = () =>
    [...Map.groupBy(listLoaded(), ({ model }) => model)]
      .filter(([, versions]) => versions.length > 1)
      .map(([model]) => model);

  async function unloadStale(): Promise<void> {
    for (const model of modelsWithSeveral()) {
      const referenced = await listReferenced(model).catch(() => undefined);
      if (referenced === undefined) continue; // Without the references, nothing is known to be stale; the next check may tell.
      const stale = listLoaded().filter(
        (cached) =>
          cached.model === model &&
          !referenced.has(cached.version) &&
          !cached.isInUse &&
          clock.now() - cached.lastUsedAtMs >= idleMs,
      );
      await Promise.all(stale.map(({ key }) => unload(key)));
    }
  }

  function schedule(): void {
    if (stop !== undefined || modelsWithSeveral().length === 0) return;
    stop = clock.setTimer(async () => {
      await unloadStale();
      stop = undefined;
      schedule();
    }, idleMs);
  }

  return { schedule, stop: () => stop?.() };
}
