// Reads a request's body as text or JSON, strictly.

import type { HonoRequest } from "hono";
import { errors, reasonOf, shown } from "../core/errors.ts";

const NO_MEDIA_TYPE = "(none)";

/** The media type without parameters, in lower case. */
export function mediaTypeOf(request: HonoRequest): string {
  return request.header("content-type")?.split(";")[0]?.trim().toLowerCase() ?? NO_MEDIA_TYPE;
}

/** @throws invalid_utf8 */
export async function readText(request: HonoRequest, what: string): Promise<string> {
  const bytes = await request.arrayBuffer();
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw errors.invalidUtf8(what);
  }
}

/** @throws invalid_utf8, invalid_json */
export async function readJson(request: HonoRequest): Promise<unknown> {
  const text = await readText(request, "The body");
  try {
    return JSON.parse(text);
  } catch (error) {
    throw errors.invalidJson(text.trim() === "" ? "it is empty" : shown(reasonOf(error), 160).replaceAll('"', "'"));
  }
}
