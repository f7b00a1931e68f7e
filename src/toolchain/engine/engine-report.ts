// What an engine build kept, and why: report.json beside the deployment.

import * as z from "zod";

const artifactSizeFields = { sha256: z.string(), bytes: z.int(), gzipBytes: z.int() };

export const engineReportSchema = z.object({
  /** SHA-256 of everything that the build depends on: an equal one needs no build. */
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
      /** Why it was not cut. */ reason: z.string(),
    }),
  ]),
  full: z.object(artifactSizeFields),
  /** Whether the full engine is bundled beside the cut one. */
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
      /** Why there is none. */
      reason: z.string().optional(),
    }),
  ),
  /** By their number in the full engine; `bytes` as they are there. */
  functions: z.array(z.object({ number: z.int(), bytes: z.int(), why: z.string() })),
  /** Inputs, other than the profiled ones, on which the cut engine was compared with the full one in workerd. */
  validation: z.array(z.object({ graph: z.string(), inputs: z.int(), different: z.int() })),
});
export type EngineReport = z.output<typeof engineReportSchema>;
export type KeptFunctionReport = EngineReport["functions"][number];
