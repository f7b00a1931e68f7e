// Errors of cache drivers.

import { errorFactory, type ErrorTable } from "../core/errors.ts";

/** Status and remedy of each code that this module owns. */
export const cacheErrorTable = {
  cache_too_slow: { status: 503, remedy: "Ignore it: requests continue without the cache." },
} as const satisfies ErrorTable;

const makeError = errorFactory(cacheErrorTable);

export const cacheErrors = {
  cacheTooSlow: (timeoutMs: number) =>
    makeError("cache_too_slow", `The cache did not respond within ${timeoutMs} ms.`),
} as const;
