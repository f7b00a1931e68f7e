// Parses environment variables or Worker bindings against a zod schema, and reports all problems together.

import * as z from "zod";
import { coreErrors } from "./common-errors.ts";
import { reasonOf } from "./errors.ts";

/** Schema of an integer written as text, with a default and inclusive bounds. */
export const integerText = (defaultValue: number, min: number, max: number) =>
  z.coerce
    .number("must be a number")
    .int("must be a whole number")
    .min(min)
    .max(max)
    .default(defaultValue);

export const httpUrlText = () =>
  z
    .url({ protocol: /^https?$/, error: "must be an http or https address" })
    .transform((url) => url.replace(/\/+$/, ""));

/**
 * Schema of JSON written as text.
 * @param formatProblem makes the message for invalid JSON; the parser's `reason` may quote parts of the text
 */
export const jsonText = (formatProblem: (reason: string) => string) =>
  z.string().transform((text, context): unknown => {
    try {
      return JSON.parse(text);
    } catch (error) {
      context.addIssue({ code: "custom", message: formatProblem(reasonOf(error)) });
      return z.NEVER;
    }
  });

/**
 * @param source for example `process.env` or a Worker's `env`; an empty string counts as absent.
 * @throws invalid_configuration naming every variable that is missing or wrong.
 */
export function parseConfig<Schema extends z.ZodType>(
  schema: Schema,
  source: object,
): z.output<Schema> {
  const present = Object.fromEntries(
    Object.entries(source).filter(([, value]) => value !== "" && value !== undefined),
  );
  const parsed = schema.safeParse(present);
  if (parsed.success) return parsed.data;
  throw coreErrors.invalidConfiguration(formatZodIssues(parsed.error));
}

/** Formats a zod error as one line per problem, each with its path and message. */
export function formatZodIssues(error: z.ZodError): string[] {
  return error.issues.map(
    (issue) => `${issue.path.length > 0 ? issue.path.join(".") : "value"}: ${issue.message}`,
  );
}
