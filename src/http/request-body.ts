// Reads a request's body as bytes, or strictly as JSON.

import type { HonoRequest } from "hono";
import { errors, reasonOf, shown } from "../core/errors.ts";

const NO_MEDIA_TYPE = "(none)";

/** The media type without parameters, in lower case. */
export function mediaTypeOf(request: HonoRequest): string {
  return request.header("content-type")?.split(";")[0]?.trim().toLowerCase() ?? NO_MEDIA_TYPE;
}

export async function readBytes(request: HonoRequest): Promise<Uint8Array> {
  return new Uint8Array(await request.arrayBuffer());
}

/** @throws invalid_utf8, invalid_json */
export async function readJson(request: HonoRequest): Promise<unknown> {
  const text = decoded(await readBytes(request));
  try {
    return JSON.parse(text);
  } catch (error) {
    throw errors.invalidJson(text.trim() === "" ? "it is empty" : shown(reasonOf(error), 160).replaceAll('"', "'"));
  }
}

function decoded(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw errors.invalidUtf8("The body");
  }
}
