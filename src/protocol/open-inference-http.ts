// The Open Inference Protocol over HTTP, for edge and region: how a message's length, media type and status travel.

import { protocolErrors } from "./errors.ts";
import { coreErrors } from "../core/common-errors.ts";
import { type EdgeTierError } from "../core/errors.ts";
import { type InferMessage, JSON_LENGTH_HEADER } from "./open-inference.ts";

/** What curl and HTTP clients put on a JSON body when they are told nothing; Triton asks for no type at all. */
const JSON_MEDIA_TYPES = [
  "application/json",
  "application/octet-stream",
  "application/x-www-form-urlencoded",
  "text/plain",
];
const MAX_DEADLINE_MS = 600_000;

/**
 * @returns how much of the body is JSON; undefined for all of it, 0 for a raw binary request
 * @throws invalid_request for a length that is none, unsupported_media_type for what can be no JSON
 */
export function readJsonLength(headers: Headers): number | undefined {
  const length = headers.get(JSON_LENGTH_HEADER);
  if (length !== null) {
    if (!/^\d{1,15}$/.test(length)) throw protocolErrors.badJsonLength(length);
    return Number(length);
  }
  const mediaType = headers.get("content-type")?.split(";")[0]?.trim().toLowerCase();
  if (
    mediaType === undefined ||
    mediaType === "" ||
    mediaType.endsWith("+json") ||
    JSON_MEDIA_TYPES.includes(mediaType)
  )
    return undefined;
  throw coreErrors.unsupportedMediaType(mediaType, JSON_MEDIA_TYPES);
}

/** `x-deadline-ms`: how long from now the answer is wanted. @throws invalid_deadline */
export function readDeadlineMs(headers: Headers): number | undefined {
  const text = headers.get("x-deadline-ms");
  if (text === null) return undefined;
  const deadlineMs = /^\d{1,6}$/.test(text) ? Number(text) : 0;
  if (deadlineMs < 1 || deadlineMs > MAX_DEADLINE_MS) throw protocolErrors.invalidDeadline(text);
  return deadlineMs;
}

/** The headers that go with a message. */
export function toMessageHeaders({ jsonBytes }: InferMessage): Record<string, string> {
  return jsonBytes === undefined
    ? { "content-type": "application/json" }
    : { "content-type": "application/octet-stream", [JSON_LENGTH_HEADER]: String(jsonBytes) };
}

/** Triton answers 400 for a model it does not know, and 404 for a version of one that it does; 503 for what came too late. */
export function toTritonStatus({ code, status }: EdgeTierError): number {
  if (code === "model_not_found") return 400;
  return status === 504 ? 503 : status;
}
