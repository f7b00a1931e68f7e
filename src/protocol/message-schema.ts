// What every JSON message of the Open Inference Protocol has in common: how it is parsed, its parameters, its lists.

import { protocolErrors } from "./errors.ts";
import * as z from "zod";
import { formatZodIssues } from "../core/config.ts";
import { parseJsonBody } from "./json-body.ts";

const MAX_PARAMETERS = 64;
/** A body can be wrong in a million places; this many are enough to say. */
const MAX_PROBLEMS = 8;

/** Counts before it looks at the elements, so that a long list of nonsense is refused at once. */
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
      z.union([z.string(), z.number(), z.boolean()], "must be a text, a number or true or false"),
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
