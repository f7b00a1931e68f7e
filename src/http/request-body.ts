// Request body: reads it within its limit, decompressed, as bytes or as strict JSON.

import type { Context, HonoRequest } from "hono";
import { reasonOf, formatValue } from "../core/errors.ts";
import { protocolErrors } from "../protocol/errors.ts";
import { decodeUtf8Body } from "../protocol/json-body.ts";
import { readRequestBody } from "../protocol/read-request-body.ts";
import type { AppEnv } from "./app-env.ts";

const NO_MEDIA_TYPE = "(none)";

/** Media type without parameters, in lower case. */
export function mediaTypeOf(request: HonoRequest): string {
  return request.header("content-type")?.split(";")[0]?.trim().toLowerCase() ?? NO_MEDIA_TYPE;
}

/** @throws as readBody */
export async function readBodyBytes(c: Context<AppEnv>): Promise<Uint8Array> {
  return await readRequestBody(c.req.raw, c.get("maxBodyBytes"));
}

/** @throws as readBody; invalid_utf8, invalid_json */
export async function readBodyJson(c: Context<AppEnv>): Promise<unknown> {
  const text = decodeUtf8Body(await readBodyBytes(c));
  try {
    return JSON.parse(text);
  } catch (error) {
    throw protocolErrors.invalidJson(
      text.trim() === "" ? "it is empty" : formatValue(reasonOf(error), 160).replaceAll('"', "'"),
    );
  }
}
