// Problem details for HTTP APIs (RFC 9457), the format of every /v1 error.

import * as z from "zod";
import type { EdgeTierError } from "../core/errors.ts";

export const PROBLEM_MEDIA_TYPE = "application/problem+json";

export const problemDetailsSchema = z
  .object({
    type: z.string(),
    title: z.string().meta({ description: "The error code as words." }),
    status: z.int(),
    detail: z.string().meta({ description: "The problem, with the value." }),
    remedy: z.string().meta({ description: "The next step, as an imperative." }),
    instance: z.string().meta({ description: "The request id." }),
    code: z.string(),
    retryable: z.boolean().meta({ description: "Whether the same request may succeed later." }),
  })
  .meta({ id: "Problem" });
export type ProblemDetails = z.output<typeof problemDetailsSchema>;

export function toProblemDetails(error: EdgeTierError, requestId: string): ProblemDetails {
  const { code, status, detail, remedy, retryable } = error;
  const title = code.charAt(0).toUpperCase() + code.slice(1).replaceAll("_", " ");
  return {
    type: "about:blank",
    title,
    status,
    detail,
    remedy,
    instance: requestId,
    code,
    retryable,
  };
}
