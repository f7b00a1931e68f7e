// Schemas and parsing shared by all JSON messages of the Open Inference Protocol: parameters, bounded lists.

import * as z from "zod";
import { formatZodIssues } from "../core/config.ts";
import { protocolErrors } from "./errors.ts";
import { parseJsonBody } from "./json-body.ts";

const MAX_PARAMETERS = 64;
/** Limits the reported problems, because a body can have millions. */
const MAX_PROBLEMS = 8;

/** Checks the length before the elements, so that a long invalid list is rejected cheaply. */
export const boundedArray = <Element extends z.ZodType>(element: Element, max: number) =>
  z
    .custom<unknown[]>(Array.isArray, "must be an array")
    .refine((list) => list.length <= max, `must have at most ${max} elements`)
    .pipe(z.array(element));

export const parametersSchema = z
  .custom<object>(
    (value) => typeof value === "object" && value !== null && !Array.isArray(value),
    "must be an object",
  )
  .refine(
    (value) => Object.keys(value).length <= MAX_PARAMETERS,
    `must have at most ${MAX_PARAMETERS} entries`,
  )
  .pipe(
    z.record(
      z.string(),
      z.union([z.string(), z.number(), z.boolean()], "must be a string, a number or a boolean"),
    ),
  )
  .nullish()
  .transform((value) => value ?? {});

/** @throws invalid_utf8, invalid_json, invalid_request */
export function parseMessage<Schema extends z.ZodType>(
  schema: Schema,
  json: Uint8Array,
): z.output<Schema> {
  const parsed = schema.safeParse(parseJsonBody(json));
  if (!parsed.success)
    throw protocolErrors.unparsableFields(formatZodIssues(parsed.error).slice(0, MAX_PROBLEMS));
  return parsed.data;
}
