// Record of the deployed edge engine in the model store. Publishing reads it to report whether the edge can serve a model.

import * as z from "zod";
import { sha256Schema } from "./manifest.ts";

export const deployedEngineSchema = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("full"), source: sha256Schema }),
  /** `functions` is the set of remaining functions (runtime/wasm/function-set.ts). */
  z.strictObject({ kind: z.literal("cut"), source: sha256Schema, functions: z.base64() }),
]);
/** `source` is the SHA-256 of the full engine. */
export type DeployedEngine = z.output<typeof deployedEngineSchema>;
