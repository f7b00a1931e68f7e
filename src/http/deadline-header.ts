// Deadline header: parses `x-deadline-ms`, or RFC 7240's `prefer: wait=<seconds>`.

import type { HonoRequest } from "hono";
import { protocolErrors } from "../protocol/errors.ts";

export const MAX_DEADLINE_MS = 600_000;

/** @returns milliseconds, or undefined if the client sets none. @throws invalid_deadline */
export function parseDeadlineMs(request: HonoRequest): number | undefined {
  const header = request.header("x-deadline-ms");
  if (header !== undefined) return validateDeadlineMs(header, Number(header));
  const seconds = /(?:^|[,;\s])wait=("?)([0-9]+)\1(?:$|[,;\s])/.exec(
    request.header("prefer") ?? "",
  )?.[2];
  return seconds === undefined
    ? undefined
    : validateDeadlineMs(`${seconds} s`, Number(seconds) * 1000);
}

function validateDeadlineMs(text: string, milliseconds: number): number {
  if (!/^[0-9]+( s)?$/.test(text) || milliseconds < 1 || milliseconds > MAX_DEADLINE_MS)
    throw protocolErrors.invalidDeadline(text);
  return milliseconds;
}
