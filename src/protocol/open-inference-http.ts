// HTTP binding of the Open Inference Protocol, for edge and region: message length, media type, deadline and status.

import { coreErrors } from "../core/common-errors.ts";
import { type EdgeTierError } from "../core/errors.ts";
import { protocolErrors } from "./errors.ts";
import { type InferMessage, JSON_LENGTH_HEADER } from "./open-inference.ts";

/** Includes the defaults of curl and HTTP clients for a JSON body, because Triton requires no media type. */
const JSON_MEDIA_TYPES = [
  "application/json",
  "application/octet-stream",
  "application/x-www-form-urlencoded",
  "text/plain",
];
const MAX_DEADLINE_MS = 600_000;

/**
 * @returns the number of JSON bytes in the body; undefined for the whole body, 0 for a raw binary request
 * @throws invalid_request for an invalid length; unsupported_media_type for a type that cannot be JSON
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

/** Reads `x-deadline-ms`, the time limit of the request. @throws invalid_deadline */
export function readDeadlineMs(headers: Headers): number | undefined {
  const text = headers.get("x-deadline-ms");
  if (text === null) return undefined;
  const deadlineMs = /^\d{1,6}$/.test(text) ? Number(text) : 0;
  if (deadlineMs < 1 || deadlineMs > MAX_DEADLINE_MS) throw protocolErrors.invalidDeadline(text);
  return deadlineMs;
}

/** Returns the HTTP headers for a message. */
export function toMessageHeaders({ jsonBytes }: InferMessage): Record<string, string> {
  return jsonBytes === undefined
    ? { "content-type": "application/json" }
    : { "content-type": "application/octet-stream", [JSON_LENGTH_HEADER]: String(jsonBytes) };
}

/** Maps an error to Triton's status: 400 for an unknown model, 404 for an unknown version, 503 for a missed deadline. */
export function toTritonStatus({ code, status }: EdgeTierError): number {
  if (code === "model_not_found") return 400;
  return status === 504 ? 503 : status;
}
