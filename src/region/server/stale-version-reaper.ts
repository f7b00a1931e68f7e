// Versions that stay behind: loaded once, and superseded since. They go when nobody has asked for them for a while, and not
// at once, since an edge goes on asking for the version that it knows by number.

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
  /** Versions of a model that an alias or the version policy names. */
  readonly listReferenced: (model: string) => Promise<ReadonlySet<number>>;
  readonly unload: (key: string) => Promise<void>;
}

export interface StaleVersionReaper {
  /** To be called when something was loaded. */
  schedule(): void;
  stop(): void;
}

export function createStaleVersionReaper({
  clock,
  idleMs,
  listLoaded: loaded,
  listReferenced: namedOf,
  unload,
}: StaleVersionReaperOptions): StaleVersionReaper {
  let stop: (() => void) | undefined;

  /** Of models with several: the only one of its model is no leftover, whatever its number. */
  const modelsWithSeveral = () =>
    [...Map.groupBy(loaded(), ({ model }) => model)]
      .filter(([, versions]) => versions.length > 1)
      .map(([model]) => model);

  async function look(): Promise<void> {
    for (const model of modelsWithSeveral()) {
      const named = await namedOf(model).catch(() => undefined);
      if (named === undefined) continue; // nobody can tell: next time, perhaps
      const idle = loaded().filter(
        (one) =>
          one.model === model &&
          !named.has(one.version) &&
          !one.isInUse &&
          clock.now() - one.lastUsedAtMs >= idleMs,
      );
      await Promise.all(idle.map(({ key }) => unload(key)));
    }
  }

  function watch(): void {
    if (stop !== undefined || modelsWithSeveral().length === 0) return;
    stop = clock.setTimer(async () => {
      await look();
      stop = undefined;
      watch();
    }, idleMs);
  }

  return { schedule: watch, stop: () => stop?.() };
}
