// The edge's configuration, parsed once from the Worker's variables and secrets.

import * as z from "zod";
import { httpUrl, parseConfig, wholeNumber } from "../core/config.ts";
import { regionVariables } from "../region/client/regions-config.ts";
import { s3Variables } from "../registry/s3-config.ts";
import { trustVariables } from "../registry/signing-keys.ts";

const schema = z
  .object({
    // The model store
    ...s3Variables,
    ...trustVariables,
    /** For one read of the store. */
    EDGETIER_S3_TIMEOUT_MS: wholeNumber(10_000, 1, 60_000),
    /** How old an alias may be before it is read again. */
    EDGETIER_ALIAS_TTL_MS: wholeNumber(10_000, 0, 3_600_000),
    ...regionVariables,
    // Caches; without Redis there is no L2
    EDGETIER_REDIS_REST_URL: httpUrl().optional(),
    EDGETIER_REDIS_REST_TOKEN: z.string().min(1).optional(),
    EDGETIER_REDIS_TIMEOUT_MS: wholeNumber(50, 1, 5_000),
    EDGETIER_CACHE_TTL_SECONDS: wholeNumber(3_600, 1, 2_592_000),
    EDGETIER_L1_MAX_BYTES: wholeNumber(8_388_608, 0, 67_108_864),
    // Limits
    EDGETIER_MAX_BODY_BYTES: wholeNumber(262_144, 1, 104_857_600),
    /** Of a request that is an image; one in JSON is within the limit above. */
    EDGETIER_MAX_IMAGE_BODY_BYTES: wholeNumber(8_388_608, 1, 104_857_600),
    /** Of a request under /v2, which brings tensors; it is held in memory. */
    EDGETIER_MAX_TENSOR_BODY_BYTES: wholeNumber(8_388_608, 1, 104_857_600),
    EDGETIER_MAX_INPUTS: wholeNumber(64, 1, 1_024),
    /** Of the texts of one request for embeddings together: what it may compute. */
    EDGETIER_MAX_TOKENS: wholeNumber(4_096, 1, 1_048_576),
    /** Share of the requests whose early exits are asked of the last tier again, in the background; 0 is off. */
    EDGETIER_DRIFT_SHARE: z.coerce.number().min(0).max(1).default(0),
    /** At one time in an isolate. */
    EDGETIER_DRIFT_MAX_CHECKS: wholeNumber(2, 1, 64),
    /** Of requests for embeddings that name no model. */
    EDGETIER_EMBEDDING_MODEL: z.string().min(1).optional(),
    /** How many versions keep their labels and preprocessors; the one unused for longest is let go. */
    EDGETIER_MAX_LOADED_VERSIONS: wholeNumber(4, 1, 64),
  })
  .refine((config) => (config.EDGETIER_REDIS_REST_URL === undefined) === (config.EDGETIER_REDIS_REST_TOKEN === undefined), {
    path: ["EDGETIER_REDIS_REST_URL"],
    message: "EDGETIER_REDIS_REST_URL and EDGETIER_REDIS_REST_TOKEN go together",
  });

export type EdgeConfig = z.output<typeof schema>;

/** @throws invalid_configuration naming every variable that is missing or wrong */
export const parseEdgeConfig = (source: object): EdgeConfig => parseConfig(schema, source);
