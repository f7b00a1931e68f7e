// Edge configuration: parses the Worker's variables, secrets and bindings once.

import * as z from "zod";
import { httpUrlText, parseConfig, integerText } from "../core/config.ts";
import { regionVariables } from "../region/client/regions-config.ts";
import { regionKeySchema } from "../region/region-keys.ts";
import type { RegionFetch } from "../region/signed-fetch.ts";
import { s3VariableSchemas } from "../registry/s3-config.ts";
import { trustVariableSchemas } from "../registry/signing-keys.ts";
import { traceVariables } from "../telemetry/trace-config.ts";
import {
  accessVariables,
  hasCompleteJwtConfig,
  JWT_VARIABLES_MESSAGE,
} from "./access/access-config.ts";
import { metricsVariables } from "./metrics-config.ts";

/** This binding exists only on Cloudflare; local runs have none. */
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
    /** Timeout of one read of the model store. */
    EDGETIER_S3_TIMEOUT_MS: integerText(10_000, 1, 60_000),
    /** Age from which an alias is read again. */
    EDGETIER_ALIAS_TTL_MS: integerText(10_000, 0, 3_600_000),
    ...regionVariables,
    /** Signs requests to regions; one of their EDGETIER_REGION_KEYS. */
    EDGETIER_REGION_KEY: regionKeySchema().optional(),
    /** Client certificate of requests to regions: a binding of wrangler.toml's `mtls_certificates`. */
    EDGETIER_REGION_CERTIFICATE: certificateBinding.optional(),
    // Caches; the L2 cache needs Redis
    EDGETIER_REDIS_REST_URL: httpUrlText().optional(),
    EDGETIER_REDIS_REST_TOKEN: z.string().min(1).optional(),
    EDGETIER_REDIS_TIMEOUT_MS: integerText(50, 1, 5_000),
    /** Lifetime of entries in the isolate and in the CDN. */
    EDGETIER_CACHE_TTL_SECONDS: integerText(3_600, 1, 2_592_000),
    EDGETIER_L2_TTL_SECONDS: integerText(604_800, 1, 2_592_000),
    EDGETIER_L1_MAX_BYTES: integerText(8_388_608, 0, 67_108_864),
    /** Whether results are also cached in Cloudflare's data center. */
    EDGETIER_CDN_CACHE: z.enum(["on", "off"]).default("on"),
    /** Timeout of one CDN lookup. */
    EDGETIER_CDN_TIMEOUT_MS: integerText(20, 1, 5_000),
    /** Lifetime of an alias's responses in CDNs. Set it only if `edgetier model promote` purges them. */
    EDGETIER_CDN_ALIAS_SECONDS: integerText(0, 0, 2_592_000),
    // Access and rate limits
    ...accessVariables,
    ...metricsVariables,
    // Traces and logs
    ...traceVariables,
    /** One log record per request. It is off by default, because the platform bills stored logs. */
    EDGETIER_ACCESS_LOG: z.enum(["on", "off"]).default("off"),
    // Limits
    /** Maximum number of concurrent inference requests per isolate; others are rejected before their body is read. */
    EDGETIER_MAX_IN_FLIGHT: integerText(256, 1, 100_000),
    EDGETIER_MAX_BODY_BYTES: integerText(262_144, 1, 104_857_600),
    /** Maximum size of an image request body; images in JSON count against EDGETIER_MAX_BODY_BYTES. */
    EDGETIER_MAX_IMAGE_BODY_BYTES: integerText(8_388_608, 1, 104_857_600),
    /** Maximum size of a request body under /v2, which is buffered in memory. */
    EDGETIER_MAX_TENSOR_BODY_BYTES: integerText(8_388_608, 1, 104_857_600),
    EDGETIER_MAX_INPUTS: integerText(64, 1, 1_024),
    /** Maximum number of tokens in one embeddings request, over all its texts. */
    EDGETIER_MAX_TOKENS: integerText(4_096, 1, 1_048_576),
    /** Share of requests whose early exits the last tier re-checks in the background; 0 turns the check off. */
    EDGETIER_DRIFT_SHARE: z.coerce.number().min(0).max(1).default(0),
    /** Maximum number of concurrent drift checks per isolate. */
    EDGETIER_DRIFT_MAX_CHECKS: integerText(2, 1, 64),
    /** Model of embeddings requests that name none. */
    EDGETIER_EMBEDDING_MODEL: z.string().min(1).optional(),
    /** Maximum number of versions with loaded labels and preprocessors; the least recently used one is evicted. */
    EDGETIER_MAX_LOADED_VERSIONS: integerText(4, 1, 64),
  })
  .refine(
    (config) =>
      (config.EDGETIER_REDIS_REST_URL === undefined) ===
      (config.EDGETIER_REDIS_REST_TOKEN === undefined),
    {
      path: ["EDGETIER_REDIS_REST_URL"],
      message: "must be set together with EDGETIER_REDIS_REST_TOKEN",
    },
  )
  .refine(hasCompleteJwtConfig, { path: ["EDGETIER_JWT_ISSUER"], message: JWT_VARIABLES_MESSAGE });

export type EdgeConfig = z.output<typeof edgeConfigSchema>;

/** Schemas by variable name; a function, so that the bundler drops it from the Worker. */
export const edgeVariableSchemas = () => edgeConfigSchema.shape;

/** @throws invalid_configuration naming every missing or invalid variable */
export const parseEdgeConfig = (source: object): EdgeConfig =>
  parseConfig(edgeConfigSchema, source);
