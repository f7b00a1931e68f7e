// Schema of a model's aliases, and access to their targets.

import * as z from "zod";
import { aliasNameSchema, versionNumberSchema } from "./common-schemas.ts";

/**
 * Aliases by name, for example `{"stable": {"version": 2, "previous": [1]}, "canary": {"version": 3, "weight": 0.05}}`.
 * A plain number is a version without weight and previous versions.
 */
export const aliasesSchema = z.record(
  aliasNameSchema,
  z.union([
    versionNumberSchema,
    z.strictObject({
      version: versionNumberSchema,
      /** Share of the default alias's requests that this alias takes. */
      weight: z.number().min(0).max(1).optional(),
      /** Earlier versions of the alias, latest first. */
      previous: z.array(versionNumberSchema).max(100).optional(),
    }),
  ]),
);
export type Aliases = z.output<typeof aliasesSchema>;
export type AliasTarget = Aliases[string];

export function aliasedVersion(target: AliasTarget): number {
  return typeof target === "number" ? target : target.version;
}
