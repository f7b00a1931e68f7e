// The answers to a request's inputs, from the caches or computed: each distinct input once.

import { servingErrors } from "./errors.ts";
import type { ResultCache, CachedResults } from "../cache/result-cache.ts";
import type { CacheMode, CacheStatus } from "../cache/cache-policy.ts";
import type { RequestContext } from "./request-context.ts";

export interface ReadThroughRequest<Value> {
  /** One for each input, as `cacheKey` makes them. */
  readonly keys: readonly string[];
  readonly cacheMode: CacheMode;
  readonly context: RequestContext;
  /** Whether what was found may be used; it is computed otherwise. */
  isUsable?(value: Value): boolean;
  /** Whether what was computed may be stored. */
  isStorable?(value: Value): boolean;
  /** @param missing indexes of the inputs that no cache has @param found what the caches have @returns one value for each of `missing` */
  compute(missing: readonly number[], found: readonly Value[]): Promise<readonly Value[]>;
}

export interface ReadThroughResult<Value> {
  /** One for each input. */
  readonly values: readonly Value[];
  readonly cacheResult: CacheStatus;
}

/** @throws not_cached where nothing may be computed, and as `compute` */
export async function readThrough<Value>(
  cache: ResultCache<Value>,
  request: ReadThroughRequest<Value>,
): Promise<ReadThroughResult<Value>> {
  const {
    keys,
    cacheMode: mode,
    context,
    isUsable = () => true,
    isStorable = () => true,
  } = request;
  if (mode === "bypass")
    return { values: await request.compute([...keys.keys()], []), cacheResult: "bypass" }; // what was asked for is the work itself
  const { tenant } = context;
  const distinct = [...new Set(keys)];
  const nothing: CachedResults<Value> = { values: [], status: "miss" };
  const {
    values,
    status: result,
    backfill: filled,
  } = mode === "refresh"
    ? nothing
    : await context.phases.measure("cache", () => cache.read(distinct, tenant));
  if (filled !== undefined) context.waitUntil(filled);

  const known = new Map<string, Value>();
  for (const [row, key] of distinct.entries()) {
    const value = values[row];
    if (value !== undefined && isUsable(value)) known.set(key, value);
  }
  const missing = distinct.filter((key) => !known.has(key));
  if (missing.length === 0)
    return { values: keys.map((key) => known.get(key) as Value), cacheResult: result };

  if (mode === "only-if-cached") throw servingErrors.notCached(missing.length);
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
