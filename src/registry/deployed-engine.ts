// Which engine the edge runs, as the model store remembers it: publishing a model can then say whether the edge will
// serve it.

import * as z from "zod";
import { sha256Schema } from "./manifest.ts";

export const deployedEngineSchema = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("full"), source: sha256Schema }),
  /** `functions` (runtime/wasm/function-set.ts): those that it was not cut of. */
  z.strictObject({ kind: z.literal("cut"), source: sha256Schema, functions: z.base64() }),
]);
/** `source`: SHA-256 of the full engine. */
export type DeployedEngine = z.output<typeof deployedEngineSchema>;
