// How large a body may be, compressed and decompressed. Whoever reads it (request-body.ts) keeps to that while it comes in.

import type { MiddlewareHandler } from "hono";
import type { AppEnv } from "../app-env.ts";
import { mediaTypeOf } from "../request-body.ts";

export interface BodyLimits {
  readonly maxBodyBytes: number;
  /** Of a request whose body is an image. */
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
