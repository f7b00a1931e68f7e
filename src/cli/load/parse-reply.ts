// Reply parser: reads tier, cache, phases and errors from the response of an edge, or the status of any other server.

import * as z from "zod";
import { tryParseJson } from "../../core/json.ts";
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

/**
 * Parses problem details, and errors of the Open Inference Protocol and of OpenAI.
 * Returns undefined for a successful response.
 */
export function parseReplyError({ status, body }: Reply): ReplyError | undefined {
  if (status >= 200 && status < 300) return undefined;
  const { code, detail, error } = problemSchema.safeParse(tryParseJson(body)).data ?? {};
  const nested = typeof error === "string" ? { message: error, code: undefined } : error;
  return { code: code ?? nested?.code ?? undefined, detail: detail ?? nested?.message ?? body };
}

/** No JSON string can contain these bytes, because its quotes would be escaped. */
const DEGRADED_MARKER = Buffer.from('"degraded":true');

export function parseReply(reply: Reply): ParsedReply {
  const replyError = parseReplyError(reply);
  const headerOf = (name: string) => {
    const value = reply.headers[name];
    return typeof value === "string" ? value : undefined;
  };
  const tier = headerOf("x-edgetier-tier");
  return {
    ...(replyError === undefined
      ? {}
      : {
          error: {
            code: [reply.status, replyError.code].filter((part) => part !== undefined).join(" "),
            detail: replyError.detail,
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

/** Parses `edge;dur=1.5, total;dur=3` (https://www.w3.org/TR/server-timing/). Metrics without a duration are ignored. */
function parseServerTiming(header = ""): (readonly [string, number])[] {
  return [...header.matchAll(/([!#$%&'*+\-.^_`|~\w]+)\s*;[^,]*?dur\s*=\s*"?(\d+(?:\.\d+)?)/g)].map(
    ([, phase = "", ms]) => [phase, Number(ms)],
  );
}
