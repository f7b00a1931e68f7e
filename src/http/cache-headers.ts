// What a prediction's response says to HTTP caches, by the cache policy.

import type { Context } from "hono";
import {
  cacheTags,
  type HttpCacheDirectives,
  computeHttpCacheDirectives,
} from "../cache/cache-policy.ts";
import type { ModelRef } from "../registry/model-ref.ts";
import type { Prediction } from "../serving/predictor.ts";
import type { AppEnv } from "./app-env.ts";

export interface CacheHeaderOptions {
  /** For how long CDNs keep an alias's answers; 0 where promotions do not purge them. */
  readonly cdnAliasSeconds: number;
}

/**
 * Sets `cache-control`, `cdn-cache-control` and `cache-tag`.
 * @param mayBeKept as of KeptAnswer
 */
export function setCacheHeaders(
  c: Context<AppEnv>,
  ref: ModelRef,
  mayBeKept: boolean,
  { model, version, isCanarySplit: isDrawn, outcomes }: Prediction,
  { cdnAliasSeconds: aliasSeconds }: CacheHeaderOptions,
): HttpCacheDirectives {
  const isPrivate = c.get("context").tenant !== "" || c.req.header("authorization") !== undefined;
  const isDegraded = outcomes.some(({ degraded }) => degraded);
  const freshness = computeHttpCacheDirectives(
    {
      method: c.req.method,
      allowsStoring: mayBeKept,
      isPrivate,
      isDegraded,
      isVersionPinned: ref.target.kind === "version",
      isCanarySplit: isDrawn,
    },
    aliasSeconds,
  );
  c.header("cache-control", freshness.cacheControl);
  if (freshness.cdnCacheControl !== undefined)
    c.header("cdn-cache-control", freshness.cdnCacheControl);
  if (freshness.isCacheable && !isPrivate) {
    const { target } = ref;
    const tags = [
      cacheTags.model(model),
      cacheTags.version(model, version),
      ...(target.kind === "alias" ? [cacheTags.alias(model, target.alias)] : []),
    ];
    c.header("cache-tag", tags.join());
  }
  return freshness;
}
