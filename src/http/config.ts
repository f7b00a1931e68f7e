// The edge's configuration, parsed once from the Worker's variables and secrets.

import * as z from "zod";
import { httpUrlText, parseConfig, integerText } from "../core/config.ts";
import { regionVariables } from "../region/client/regions-config.ts";
import type { RegionFetch } from "../region/signed-fetch.ts";
import { regionKeySchema } from "../region/region-keys.ts";
import { s3VariableSchemas } from "../registry/s3-config.ts";
import { trustVariableSchemas } from "../registry/signing-keys.ts";
import { traceVariables } from "../telemetry/trace-config.ts";
import { metricsVariables } from "./metrics-config.ts";
import {
  accessVariables,
  hasCompleteJwtConfig,
  JWT_VARIABLES_MESSAGE,
} from "./access/access-config.ts";

/** On the platform alone: locally there is no such binding. */
const certificateBinding = z
  .custom<{ fetch: RegionFetch }>(
    (value) => value instanceof Object && "fetch" in value && typeof value.fetch === "function",
    "must be a binding of mtls_certificates",
  )
  .transform(
    (binding): RegionFetch =>
      (url, init) =>
        binding.fetch(url, init),
  );

const edgeConfigSchema = z
  .object({
    // The model store
    ...s3VariableSchemas,
    ...trustVariableSchemas,
    /** For one read of the store. */
    EDGETIER_S3_TIMEOUT_MS: integerText(10_000, 1, 60_000),
    /** How old an alias may be before it is read again. */
    EDGETIER_ALIAS_TTL_MS: integerText(10_000, 0, 3_600_000),
    ...regionVariables,
    /** One of the regions' EDGETIER_REGION_KEYS: requests to them are signed. */
    EDGETIER_REGION_KEY: regionKeySchema().optional(),
    /** A binding of wrangler.toml's `mtls_certificates`, which requests to the region then present. */
    EDGETIER_REGION_CERTIFICATE: certificateBinding.optional(),
    // Caches; without Redis there is no L2
    EDGETIER_REDIS_REST_URL: httpUrlText().optional(),
    EDGETIER_REDIS_REST_TOKEN: z.string().min(1).optional(),
    EDGETIER_REDIS_TIMEOUT_MS: integerText(50, 1, 5_000),
    /** In the isolate and in the CDN. */
    EDGETIER_CACHE_TTL_SECONDS: integerText(3_600, 1, 2_592_000),
    EDGETIER_L2_TTL_SECONDS: integerText(604_800, 1, 2_592_000),
    EDGETIER_L1_MAX_BYTES: integerText(8_388_608, 0, 67_108_864),
    /** Whether answers are kept in the data centre's cache, too. */
    EDGETIER_CDN_CACHE: z.enum(["on", "off"]).default("on"),
    /** For one look-up there. */
    EDGETIER_CDN_TIMEOUT_MS: integerText(20, 1, 5_000),
    /** For how long CDNs may keep what is asked of an alias; only where `edgetier model promote` purges them. */
    EDGETIER_CDN_ALIAS_SECONDS: integerText(0, 0, 2_592_000),
    // Who may ask, and how often
    ...accessVariables,
    ...metricsVariables,
    // Traces and logs
    ...traceVariables,
    /** One record for each request: what the platform keeps of logs costs. */
    EDGETIER_ACCESS_LOG: z.enum(["on", "off"]).default("off"),
    // Limits
    /** Requests that compute at the same time in an isolate; further ones are refused before they are read. */
    EDGETIER_MAX_IN_FLIGHT: integerText(256, 1, 100_000),
    EDGETIER_MAX_BODY_BYTES: integerText(262_144, 1, 104_857_600),
    /** Of a request that is an image; one in JSON is within the limit above. */
    EDGETIER_MAX_IMAGE_BODY_BYTES: integerText(8_388_608, 1, 104_857_600),
    /** Of a request under /v2, which brings tensors; it is held in memory. */
    EDGETIER_MAX_TENSOR_BODY_BYTES: integerText(8_388_608, 1, 104_857_600),
    EDGETIER_MAX_INPUTS: integerText(64, 1, 1_024),
    /** Of the texts of one request for embeddings together: what it may compute. */
    EDGETIER_MAX_TOKENS: integerText(4_096, 1, 1_048_576),
    /** Share of the requests whose early exits are asked of the last tier again, in the background; 0 is off. */
    EDGETIER_DRIFT_SHARE: z.coerce.number().min(0).max(1).default(0),
    /** At one time in an isolate. */
    EDGETIER_DRIFT_MAX_CHECKS: integerText(2, 1, 64),
    /** Of requests for embeddings that name no model. */
    EDGETIER_EMBEDDING_MODEL: z.string().min(1).optional(),
    /** How many versions keep their labels and preprocessors; the one unused for longest is let go. */
    EDGETIER_MAX_LOADED_VERSIONS: integerText(4, 1, 64),
  })
  .refine(
    (config) =>
      (config.EDGETIER_REDIS_REST_URL === undefined) ===
      (config.EDGETIER_REDIS_REST_TOKEN === undefined),
    {
      path: ["EDGETIER_REDIS_REST_URL"],
      message: "EDGETIER_REDIS_REST_URL and EDGETIER_REDIS_REST_TOKEN go together",
    },
  )
  .refine(hasCompleteJwtConfig, { path: ["EDGETIER_JWT_ISSUER"], message: JWT_VARIABLES_MESSAGE });

export type EdgeConfig = z.output<typeof edgeConfigSchema>;

/** Their schemas by their names; a function, so that a Worker that does not ask is spared it. */
export const edgeVariableSchemas = () => edgeConfigSchema.shape;

/** @throws invalid_configuration naming every variable that is missing or wrong */
export const parseEdgeConfig = (source: object): EdgeConfig =>
  parseConfig(edgeConfigSchema, source);
