// Body limit: sets the maximum size of a body, compressed and decompressed. The reader (request-body.ts) enforces it.

import type { MiddlewareHandler } from "hono";
import type { AppEnv } from "../app-env.ts";
import { mediaTypeOf } from "../request-body.ts";

export interface BodyLimits {
  readonly maxBodyBytes: number;
  readonly maxImageBodyBytes: number;
}

export function bodyLimit({
  maxBodyBytes,
  maxImageBodyBytes,
}: BodyLimits): MiddlewareHandler<AppEnv> {
  return async function setLimit(c, next) {
    c.set(
      "maxBodyBytes",
      mediaTypeOf(c.req).startsWith("image/") ? maxImageBodyBytes : maxBodyBytes,
    );
    await next();
  };
}
