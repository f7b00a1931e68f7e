// What a request says of caches: `cache-control` (RFC 9111, section 5.2.1), which a parameter of its own goes before.

import type { HonoRequest } from "hono";
import type { CacheMode } from "../cache/cache-policy.ts";

/**
 * Answers do not age (their version is in their key), so that of the ages that a client may name only `max-age=0` says anything.
 * @param parameter as the body or the query has it
 */
export function parseCacheMode(request: HonoRequest, parameter: CacheMode | undefined): CacheMode {
  if (parameter !== undefined) return parameter;
  const directives = (request.header("cache-control") ?? "")
    .toLowerCase()
    .split(",")
    .map((directive) => directive.trim().replaceAll('"', ""));
  const says = (pattern: RegExp) => directives.some((directive) => pattern.test(directive));
  if (says(/^only-if-cached$/)) return "only-if-cached";
  if (says(/^no-store$/)) return "bypass";
  return says(/^(no-cache|max-age=0+)$/) ? "refresh" : "use";
}
