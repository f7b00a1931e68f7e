// Reads the region server's settings from its environment variables.

import * as z from "zod";
import { parseConfig, integerText } from "../../src/core/config.ts";
import { reasonOf } from "../../src/core/errors.ts";
import { regionKeysSchema } from "../../src/region/region-keys.ts";
import { parseModelRef } from "../../src/registry/model-ref.ts";
import { s3VariableSchemas } from "../../src/registry/s3-config.ts";
import type { BatchingConfig } from "../../src/registry/serving-config.ts";
import { trustVariableSchemas } from "../../src/registry/signing-keys.ts";
import { ISOLATIONS } from "../../src/runtime/native/isolated-runtime.ts";
import { traceVariables } from "../../src/telemetry/trace-config.ts";

const ALL_MODELS = "*";

/** Comma-separated references; `*` stands for every model. */
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
      message: "must be comma-separated positive integers",
    });
  return counts;
});

const schema = z
  .object({
    EDGETIER_REGION_HOST: z.string().default("127.0.0.1"),
    EDGETIER_REGION_PORT: integerText(8788, 0, 65_535),
    ...s3VariableSchemas,
    ...trustVariableSchemas,
    /** Models to load before the server is ready, such as "intent,fraud@3"; "*" for all. */
    EDGETIER_REGION_PRELOAD: preload.default({ all: false, refs: [] }),
    /** JSON file with the configuration of single models (models-file.ts). */
    EDGETIER_REGION_MODELS: z.string().optional(),
    /** Interval of checks for new versions of preloaded models; 0 disables them, as each request checks its own model. */
    EDGETIER_REGION_POLL_MS: integerText(0, 0, 86_400_000),
    /** Memory limit of the loaded models. The least recently used are evicted to make room; 0 disables the limit. */
    EDGETIER_REGION_MODEL_BUDGET_BYTES: integerText(0, 0, Number.MAX_SAFE_INTEGER),
    /** How long a version that no alias names stays loaded after its last request. */
    EDGETIER_REGION_LEFTOVER_IDLE_MS: integerText(300_000, 1_000, 86_400_000),
    /** Isolation of a session: its own process, which can be replaced and returns its memory; a thread; or the server's process. */
    EDGETIER_REGION_ISOLATION: z.enum(ISOLATIONS).default("process"),
    /** Threads per operator, unless the model or EDGETIER_REGION_MODELS sets them; 0 leaves the choice to ONNX Runtime. */
    EDGETIER_REGION_THREADS: integerText(0, 0, 1_024),
    /** Concurrent sessions per tier, unless the model or EDGETIER_REGION_MODELS sets them. */
    EDGETIER_REGION_INSTANCES: integerText(1, 1, 64),
    /** Trusted keys: `<id>:<base64>` of each edge's EDGETIER_REGION_KEY, comma-separated; without it, every client is trusted. */
    EDGETIER_REGION_KEYS: regionKeysSchema().optional(),
    /** Maximum difference between a signature's time and this server's clock. */
    EDGETIER_REGION_CLOCK_TOLERANCE_MS: integerText(30_000, 1_000, 600_000),
    /** Maximum number of signed requests remembered against replay; further ones are rejected until the oldest expires. */
    EDGETIER_REGION_MAX_NONCES: integerText(262_144, 1, 16_777_216),
    /** Comma-separated paths that need no signature, "none" for none. A kubelet and Prometheus have no key. */
    EDGETIER_REGION_OPEN_PATHS: z
      .string()
      .default("/v2/health/live,/v2/health/ready,/metrics")
      .transform((text) => text.split(",").map((path) => path.trim())),
    EDGETIER_REGION_MAX_BODY_BYTES: integerText(8_388_608, 1_024, 1_073_741_824),
    EDGETIER_REGION_MAX_ROWS: integerText(256, 1, 65_536),
    /** Maximum number of requests in flight over all models; further ones are rejected before they are read. */
    EDGETIER_REGION_MAX_PENDING: integerText(512, 1, 1_000_000),
    /** Whether identical concurrent requests are computed once. */
    EDGETIER_REGION_SHARED_RUNS: z.enum(["on", "off"]).default("on"),
    /** How requests share runs: not at all (`off`), by Triton's rules (`fixed`), or by learning model and load (`adaptive`). */
    EDGETIER_REGION_BATCHING: z.enum(["off", "fixed", "adaptive"]).default("fixed"),
    /** Maximum rows of one shared run. */
    EDGETIER_REGION_MAX_BATCH_ROWS: integerText(32, 1, 65_536),
    /** `fixed`: maximum wait for other requests while the session is free. Timers round values below 1000 up to 1000, except 0. */
    EDGETIER_REGION_MAX_QUEUE_DELAY_US: integerText(0, 0, 60_000_000),
    /** `fixed`: batch sizes that are dispatched immediately, such as "8,16,32". */
    EDGETIER_REGION_PREFERRED_BATCH_ROWS: rowCounts.default([]),
    /** Maximum number of rows that wait for one session. */
    EDGETIER_REGION_MAX_QUEUE_SIZE: integerText(256, 1, 1_000_000),
    ...traceVariables,
    /** Whether each request is logged. */
    EDGETIER_REGION_ACCESS_LOG: z.enum(["on", "off"]).default("off"),
    /** How long a stopping server still accepts requests while it reports that it is not ready. */
    EDGETIER_DRAIN_LINGER_MS: integerText(200, 0, 600_000),
    /** Maximum time that a stopping server takes to answer the accepted requests. */
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

/** Returns how requests share runs unless the model or EDGETIER_REGION_MODELS sets it. */
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
