// Parses a model's label file: a JSON array of names, in the order of the logits.

import * as z from "zod";
import { coreErrors } from "../core/common-errors.ts";
import { formatZodIssues } from "../core/config.ts";
import { reasonOf } from "../core/errors.ts";

const labelsSchema = z
  .array(z.string().min(1), "must be a JSON array of strings")
  .min(1, "must have at least one label");

export type ParsedLabels =
  | { readonly labels: readonly string[] }
  | { readonly problems: readonly string[] };

/** Parses the labels of a stored version. @throws manifest_invalid */
export function parseVersionLabels(
  { model, version }: { readonly model: string; readonly version: number },
  bytes: Uint8Array,
): readonly string[] {
  const parsed = parseLabelFile(bytes);
  if ("problems" in parsed)
    throw coreErrors.manifestInvalid(
      model,
      version,
      parsed.problems.map((problem) => `its label file ${problem}`),
    );
  return parsed.labels;
}

export function parseLabelFile(bytes: Uint8Array): ParsedLabels {
  let json: unknown;
  try {
    json = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (error) {
    return { problems: [`is not JSON: ${reasonOf(error)}`] };
  }
  const parsed = labelsSchema.safeParse(json);
  if (!parsed.success) return { problems: formatZodIssues(parsed.error) };
  return new Set(parsed.data).size === parsed.data.length
    ? { labels: parsed.data }
    : { problems: ["has duplicate labels"] };
}
