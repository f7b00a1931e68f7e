// What an answer says of itself: an EdgeTier edge's headers, or any server's status.

import * as z from "zod";
import type { Reply } from "./http-sender.ts";
import type { ParsedReply } from "./load-record.ts";

const problemSchema = z.object({
  code: z.string().optional(),
  detail: z.string().optional(),
  error: z
    .union([z.string(), z.object({ message: z.string(), code: z.string().nullish() })])
    .optional(),
});

export interface ReplyError {
  readonly code: string | undefined;
  readonly detail: string;
}

/** Of problem details, the Open Inference Protocol's errors, and OpenAI's. @returns undefined for an answer */
export function parseReplyError({ status, body }: Reply): ReplyError | undefined {
  if (status >= 200 && status < 300) return undefined;
  const { code, detail, error } = problemSchema.safeParse(parseJson(body)).data ?? {};
  const own = typeof error === "string" ? { message: error, code: undefined } : error;
  return { code: code ?? own?.code ?? undefined, detail: detail ?? own?.message ?? body };
}

const DEGRADED_MARKER = Buffer.from('"degraded":true'); // in JSON, no string can hold these bytes: its quotes would be escaped

export function parseReply(reply: Reply): ParsedReply {
  const refusal = parseReplyError(reply);
  const headerOf = (name: string) => {
    const value = reply.headers[name];
    return typeof value === "string" ? value : undefined;
  };
  const tier = headerOf("x-edgetier-tier");
  return {
    ...(refusal === undefined
      ? {}
      : {
          error: {
            code: [reply.status, refusal.code].filter((part) => part !== undefined).join(" "),
            detail: refusal.detail,
          },
        }),
    tier,
    cache: headerOf("x-edgetier-cache"),
    isDegraded:
      tier !== undefined &&
      Buffer.from(reply.bytes.buffer, reply.bytes.byteOffset, reply.bytes.byteLength).includes(
        DEGRADED_MARKER,
      ),
    phases: parseServerTiming(headerOf("server-timing")),
  };
}

/** https://www.w3.org/TR/server-timing/: `edge;dur=1.5, total;dur=3`. What tells no duration is left out. */
function parseServerTiming(header = ""): (readonly [string, number])[] {
  return [...header.matchAll(/([!#$%&'*+\-.^_`|~\w]+)\s*;[^,]*?dur\s*=\s*"?(\d+(?:\.\d+)?)/g)].map(
    ([, phase = "", ms]) => [phase, Number(ms)],
  );
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
