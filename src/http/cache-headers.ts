// Cache headers: applies the HTTP cache policy to a prediction's response.

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
  /** Lifetime of an alias's responses in CDNs, in seconds; 0 if promotions do not purge them. */
  readonly cdnAliasSeconds: number;
}

/**
 * Sets `cache-control`, `cdn-cache-control` and `cache-tag`.
 * @param allowsStoring as in CacheableResponse
 */
export function setCacheHeaders(
  c: Context<AppEnv>,
  ref: ModelRef,
  allowsStoring: boolean,
  { model, version, isCanarySplit, outcomes }: Prediction,
  { cdnAliasSeconds }: CacheHeaderOptions,
): HttpCacheDirectives {
  const isPrivate = c.get("context").tenant !== "" || c.req.header("authorization") !== undefined;
  const isDegraded = outcomes.some(({ degraded }) => degraded);
  const directives = computeHttpCacheDirectives(
    {
      method: c.req.method,
      allowsStoring,
      isPrivate,
      isDegraded,
      isVersionPinned: ref.target.kind === "version",
      isCanarySplit,
    },
    cdnAliasSeconds,
  );
  c.header("cache-control", directives.cacheControl);
  if (directives.cdnCacheControl !== undefined)
    c.header("cdn-cache-control", directives.cdnCacheControl);
  if (directives.isCacheable && !isPrivate) {
    const { target } = ref;
    const tags = [
      cacheTags.model(model),
      cacheTags.version(model, version),
      ...(target.kind === "alias" ? [cacheTags.alias(model, target.alias)] : []),
    ];
    c.header("cache-tag", tags.join());
  }
  return directives;
}
