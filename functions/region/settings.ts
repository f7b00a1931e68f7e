// The region server's settings, from its environment.

import * as z from "zod";
import { parseConfig, integerText } from "../../src/core/config.ts";
import { s3VariableSchemas } from "../../src/registry/s3-config.ts";
import type { BatchingConfig } from "../../src/registry/serving-config.ts";
import { parseModelRef } from "../../src/registry/model-ref.ts";
import { regionKeysSchema } from "../../src/region/region-keys.ts";
import { trustVariableSchemas } from "../../src/registry/signing-keys.ts";
import { traceVariables } from "../../src/telemetry/trace-config.ts";
import { reasonOf } from "../../src/core/errors.ts";
import { ISOLATIONS } from "../../src/runtime/native/isolated-runtime.ts";

const ALL_MODELS = "*";

/** References with commas between them; `*` among them stands for every model. */
const preload = z.string().transform((text, context) => {
  const parts = text.split(",").flatMap((part) => (part.trim() === "" ? [] : [part.trim()]));
  const refs = parts.flatMap((part) => {
    try {
      return part === ALL_MODELS ? [] : [parseModelRef(part)];
    } catch (error) {
      context.addIssue({ code: "custom", message: reasonOf(error) });
      return [];
    }
  });
  return { all: parts.includes(ALL_MODELS), refs };
});

const rowCounts = z.string().transform((text, context) => {
  const counts = text.split(",").map((part) => (/^\s*\d+\s*$/.test(part) ? Number(part) : 0));
  if (counts.some((count) => count < 1))
    context.addIssue({
      code: "custom",
      message: "must be whole numbers from 1 with commas between them",
    });
  return counts;
});

const schema = z
  .object({
    EDGETIER_REGION_HOST: z.string().default("127.0.0.1"),
    EDGETIER_REGION_PORT: integerText(8788, 0, 65_535),
    ...s3VariableSchemas,
    ...trustVariableSchemas,
    /** Models that are loaded before the server says that it is ready, such as "intent,fraud@3"; "*" for all. */
    EDGETIER_REGION_PRELOAD: preload.default({ all: false, refs: [] }),
    /** A JSON file with the configuration of single models (models-file.ts). */
    EDGETIER_REGION_MODELS: z.string().optional(),
    /** How often what is preloaded is looked for anew, new versions of it too; 0: not, as every request looks for its own model. */
    EDGETIER_REGION_POLL_MS: integerText(0, 0, 86_400_000),
    /** For the models that are loaded: those that were used least recently go when there is no room for another; 0: no limit. */
    EDGETIER_REGION_MODEL_BUDGET_BYTES: integerText(0, 0, Number.MAX_SAFE_INTEGER),
    /** How long a version that no alias names any more stays loaded after its last request. */
    EDGETIER_REGION_LEFTOVER_IDLE_MS: integerText(300_000, 1_000, 86_400_000),
    /** Where a session runs: in a process, which can be replaced and gives its memory back, in a thread, or with the server. */
    EDGETIER_REGION_ISOLATION: z.enum(ISOLATIONS).default("process"),
    /** Threads of one operator, where neither model nor EDGETIER_REGION_MODELS says it; 0 leaves it to ONNX Runtime. */
    EDGETIER_REGION_THREADS: integerText(0, 0, 1_024),
    /** Sessions of a tier that run at the same time, where neither model nor EDGETIER_REGION_MODELS says it. */
    EDGETIER_REGION_INSTANCES: integerText(1, 1, 64),
    /** Whose requests are answered: `<id>:<base64>` of each edge's EDGETIER_REGION_KEY, several with commas between them; without it, everyone's. */
    EDGETIER_REGION_KEYS: regionKeysSchema().optional(),
    /** How far the clock of a request's signature may be from this one. */
    EDGETIER_REGION_CLOCK_TOLERANCE_MS: integerText(30_000, 1_000, 600_000),
    /** Signed requests that are remembered, so that none is answered twice; further ones are refused until the oldest is too old to come again. */
    EDGETIER_REGION_MAX_NONCES: integerText(262_144, 1, 16_777_216),
    /** Paths that are answered without a signature, with commas between them, "none" for none: a kubelet and Prometheus have no key. */
    EDGETIER_REGION_OPEN_PATHS: z
      .string()
      .default("/v2/health/live,/v2/health/ready,/metrics")
      .transform((text) => text.split(",").map((path) => path.trim())),
    EDGETIER_REGION_MAX_BODY_BYTES: integerText(8_388_608, 1_024, 1_073_741_824),
    EDGETIER_REGION_MAX_ROWS: integerText(256, 1, 65_536),
    /** Requests that are read, wait or run at once, over all models; further ones are refused before they are read. */
    EDGETIER_REGION_MAX_PENDING: integerText(512, 1, 1_000_000),
    /** Whether identical requests that come at the same time are computed once. */
    EDGETIER_REGION_SHARED_RUNS: z.enum(["on", "off"]).default("on"),
    /** Whether requests share runs: `off`, by Triton's rules (`fixed`), or by what is learned of the model and its load (`adaptive`). */
    EDGETIER_REGION_BATCHING: z.enum(["off", "fixed", "adaptive"]).default("fixed"),
    /** Rows of one shared run. */
    EDGETIER_REGION_MAX_BATCH_ROWS: integerText(32, 1, 65_536),
    /** `fixed`: how long a request may wait for others while its session is free. Timers take 1000 for anything less but 0. */
    EDGETIER_REGION_MAX_QUEUE_DELAY_US: integerText(0, 0, 60_000_000),
    /** `fixed`: sizes that go at once, such as "8,16,32". */
    EDGETIER_REGION_PREFERRED_BATCH_ROWS: rowCounts.default([]),
    /** Rows that may wait for one session. */
    EDGETIER_REGION_MAX_QUEUE_SIZE: integerText(256, 1, 1_000_000),
    ...traceVariables,
    /** Whether each request is logged. */
    EDGETIER_REGION_ACCESS_LOG: z.enum(["on", "off"]).default("off"),
    /** How long a server that was told to stop still takes requests, while it says that it is not ready. */
    EDGETIER_DRAIN_LINGER_MS: integerText(200, 0, 600_000),
    /** How long a server that was told to stop goes on answering what it has taken. */
    EDGETIER_DRAIN_TIMEOUT_MS: integerText(10_000, 0, 600_000),
  })
  .superRefine((settings, context) => {
    const tooMany = settings.EDGETIER_REGION_PREFERRED_BATCH_ROWS.filter(
      (rows) => rows > settings.EDGETIER_REGION_MAX_BATCH_ROWS,
    );
    if (tooMany.length === 0) return;
    context.addIssue({
      code: "custom",
      path: ["EDGETIER_REGION_PREFERRED_BATCH_ROWS"],
      message: `${tooMany.join(", ")} cannot be reached with EDGETIER_REGION_MAX_BATCH_ROWS=${settings.EDGETIER_REGION_MAX_BATCH_ROWS}`,
    });
  });
export type RegionSettings = z.output<typeof schema>;

/** How requests share runs, where neither model nor EDGETIER_REGION_MODELS says it. */
export function batchingDefaultsOf(settings: RegionSettings): BatchingConfig {
  return {
    mode: settings.EDGETIER_REGION_BATCHING,
    maxBatchRows: settings.EDGETIER_REGION_MAX_BATCH_ROWS,
    preferredBatchRows: settings.EDGETIER_REGION_PREFERRED_BATCH_ROWS,
    maxQueueDelayUs: settings.EDGETIER_REGION_MAX_QUEUE_DELAY_US,
    queue: { maxQueueSize: settings.EDGETIER_REGION_MAX_QUEUE_SIZE },
  };
}

/** @throws invalid_configuration with every problem */
export const readRegionSettings = (environment: object): RegionSettings =>
  parseConfig(schema, environment);
