// Read-through cache: reads the results of a request's inputs from the caches, and computes each missing distinct input once.

import type { CacheMode, CacheStatus } from "../cache/cache-policy.ts";
import type { ResultCache, CachedResults } from "../cache/result-cache.ts";
import { servingErrors } from "./errors.ts";
import type { RequestContext } from "./request-context.ts";

export interface ReadThroughRequest<Value> {
  /** One cache key per input, as `formatCacheKey` creates them. */
  readonly keys: readonly string[];
  readonly cacheMode: CacheMode;
  readonly context: RequestContext;
  /** Whether a cached value may be used; otherwise it is computed. */
  isUsable?(value: Value): boolean;
  /** Whether a computed value may be stored. */
  isStorable?(value: Value): boolean;
  /**
   * @param missing indexes of the inputs that are not cached
   * @param found cached values of the other inputs
   * @returns one value for each of `missing`
   */
  compute(missing: readonly number[], found: readonly Value[]): Promise<readonly Value[]>;
}

export interface ReadThroughResult<Value> {
  /** One value per input. */
  readonly values: readonly Value[];
  readonly cacheResult: CacheStatus;
}

/** @throws not_cached if the mode forbids computing; as `compute` */
export async function readThrough<Value>(
  cache: ResultCache<Value>,
  request: ReadThroughRequest<Value>,
): Promise<ReadThroughResult<Value>> {
  const { keys, cacheMode, context, isUsable = () => true, isStorable = () => true } = request;
  if (cacheMode === "bypass")
    return { values: await request.compute([...keys.keys()], []), cacheResult: "bypass" }; // duplicates are computed too
  const { tenant } = context;
  const distinct = [...new Set(keys)];
  const noResults: CachedResults<Value> = { values: [], status: "miss" };
  const { values, status, backfill } =
    cacheMode === "refresh"
      ? noResults
      : await context.phases.measure("cache", () => cache.read(distinct, tenant));
  if (backfill !== undefined) context.waitUntil(backfill);

  const known = new Map<string, Value>();
  for (const [row, key] of distinct.entries()) {
    const value = values[row];
    if (value !== undefined && isUsable(value)) known.set(key, value);
  }
  const missing = distinct.filter((key) => !known.has(key));
  if (missing.length === 0)
    return { values: keys.map((key) => known.get(key) as Value), cacheResult: status };

  if (cacheMode === "only-if-cached") throw servingErrors.notCached(missing.length);
  const computed = await request.compute(
    missing.map((key) => keys.indexOf(key)),
    [...known.values()],
  );
  const entries = missing.map((key, row) => ({ key, value: computed[row] as Value }));
  context.waitUntil(
    cache.write(
      entries.filter(({ value }) => isStorable(value)),
      tenant,
    ),
  );
  for (const { key, value } of entries) known.set(key, value);
  return { values: keys.map((key) => known.get(key) as Value), cacheResult: "miss" };
}
