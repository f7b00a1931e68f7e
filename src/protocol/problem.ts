// Problem details for HTTP APIs (RFC 9457), as every /v1 error is sent.

import { z } from "@hono/zod-openapi";
import type { EdgeTierError } from "../core/errors.ts";

export const PROBLEM_MEDIA_TYPE = "application/problem+json";

export const problemSchema = z
  .object({
    type: z.string(),
    title: z.string().openapi({ description: "The code in words." }),
    status: z.int(),
    detail: z.string().openapi({ description: "What was wrong, with the value." }),
    remedy: z.string().openapi({ description: "What to do about it." }),
    instance: z.string().openapi({ description: "The request id." }),
    code: z.string(),
    retryable: z.boolean().openapi({ description: "The same request may succeed later." }),
  })
  .openapi("Problem");

export function problemOf(error: EdgeTierError, requestId: string): z.output<typeof problemSchema> {
  const { code, status, detail, remedy, retryable } = error;
  const title = code.charAt(0).toUpperCase() + code.slice(1).replaceAll("_", " ");
  return { type: "about:blank", title, status, detail, remedy, instance: requestId, code, retryable };
}
