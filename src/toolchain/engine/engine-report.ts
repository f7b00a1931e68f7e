// Engine report: lists what an engine build kept, and why. It is the deployment folder's report.json.

import * as z from "zod";

const artifactSizeFields = { sha256: z.string(), bytes: z.int(), gzipBytes: z.int() };

export const engineReportSchema = z.object({
  /** SHA-256 of everything that the build depends on. If it is unchanged, no build is needed. */
  inputs: z.string(),
  /** `source` is the SHA-256 of the full engine. */
  engine: z.discriminatedUnion("kind", [
    z.object({
      kind: z.literal("cut"),
      source: z.string(),
      ...artifactSizeFields,
      functions: z.string(),
      functionCount: z.int(),
    }),
    z.object({
      kind: z.literal("full"),
      source: z.string(),
      ...artifactSizeFields,
      /** Why the engine is not stripped. */
      reason: z.string(),
    }),
  ]),
  full: z.object(artifactSizeFields),
  /** Whether the full engine is bundled in addition to the stripped one. */
  fallback: z.boolean(),
  graphs: z.array(
    z.object({
      model: z.string(),
      tier: z.string(),
      sha256: z.string(),
      bundled: z.boolean().default(false),
      snapshot: z
        .object({
          bytes: z.int(),
          gzipBytes: z.int(),
          memoryBytes: z.int(),
          functionsEntered: z.int(),
        })
        .nullable(),
      /** Why the graph has no snapshot. */
      reason: z.string().optional(),
    }),
  ),
  /** Kept functions; `number` and `bytes` are their index and size in the full engine. */
  functions: z.array(z.object({ number: z.int(), bytes: z.int(), why: z.string() })),
  /** Comparisons of the stripped with the full engine in workerd, on other inputs than the profiled ones. */
  validation: z.array(z.object({ graph: z.string(), inputs: z.int(), different: z.int() })),
});
export type EngineReport = z.output<typeof engineReportSchema>;
export type KeptFunctionReport = EngineReport["functions"][number];
