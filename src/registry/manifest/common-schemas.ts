// Manifest schemas of names, versions, artifacts and tensors.

import * as z from "zod";
import { DATATYPES } from "../../core/tensor.ts";

export const modelNameSchema = z
  .string()
  .regex(
    /^[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?$/,
    "must be 1 to 64 characters of a-z, 0-9, '-', '_', '.'",
  );
export const aliasNameSchema = z
  .string()
  .regex(
    /^[a-z][a-z0-9-]{0,31}$/,
    "must start with a letter; a-z, 0-9, '-'; at most 32 characters",
  );
export const versionNumberSchema = z.int().min(1).max(1_000_000_000);
export const sha256Schema = z
  .string()
  .regex(/^[0-9a-f]{64}$/, "must be a SHA-256 in lower-case hex");

/** Reference to an immutable file of the store by its digest; `size` is in bytes. */
export const artifactRefSchema = z.strictObject({
  sha256: sha256Schema,
  size: z.int().min(1).max(2_147_483_647),
});
export type ArtifactRef = z.output<typeof artifactRefSchema>;

export const tensorSpecSchema = z.strictObject({
  name: z.string().min(1),
  datatype: z.enum(DATATYPES),
  shape: z.array(z.int().min(-1)),
});
