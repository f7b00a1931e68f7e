// Cache mode: parses a request's `cache-control` (RFC 9111, section 5.2.1). The `cache` parameter takes precedence.

import type { HonoRequest } from "hono";
import type { CacheMode } from "../cache/cache-policy.ts";

/**
 * Cached results do not age, because their key contains the version. Therefore `max-age=0` is the only age that matters.
 * @param parameter `cache` of the body or the query
 */
export function parseCacheMode(request: HonoRequest, parameter: CacheMode | undefined): CacheMode {
  if (parameter !== undefined) return parameter;
  const directives = (request.header("cache-control") ?? "")
    .toLowerCase()
    .split(",")
    .map((directive) => directive.trim().replaceAll('"', ""));
  const hasDirective = (pattern: RegExp) => directives.some((directive) => pattern.test(directive));
  if (hasDirective(/^only-if-cached$/)) return "only-if-cached";
  if (hasDirective(/^no-store$/)) return "bypass";
  return hasDirective(/^(no-cache|max-age=0+)$/) ? "refresh" : "use";
}
