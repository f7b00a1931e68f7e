// The region server's settings, from its environment.

import { z } from "zod";
import { parseConfig, wholeNumber } from "../../src/core/config.ts";
import { s3Variables } from "../../src/registry/s3-config.ts";
import { parseModelRef } from "../../src/registry/model-ref.ts";
import { reasonOf } from "../../src/core/errors.ts";

const modelRefs = z.string().transform((text, context) =>
  text.split(",").flatMap((part) => {
    try {
      return part.trim() === "" ? [] : [parseModelRef(part.trim())];
    } catch (error) {
      context.addIssue({ code: "custom", message: reasonOf(error) });
      return [];
    }
  }),
);

const schema = z.object({
  EDGETIER_REGION_HOST: z.string().default("127.0.0.1"),
  EDGETIER_REGION_PORT: wholeNumber(8788, 0, 65_535),
  ...s3Variables,
  /** Models that are loaded before the server says that it is ready, such as "intent,fraud@3". */
  EDGETIER_REGION_PRELOAD: modelRefs.default([]),
  /** Threads of one operator; 0 leaves it to ONNX Runtime. */
  EDGETIER_REGION_THREADS: wholeNumber(0, 0, 1_024),
  EDGETIER_REGION_MAX_BODY_BYTES: wholeNumber(8_388_608, 1_024, 1_073_741_824),
  EDGETIER_REGION_MAX_ROWS: wholeNumber(256, 1, 65_536),
  EDGETIER_REGION_MAX_QUEUED: wholeNumber(256, 1, 1_000_000),
  /** How long a server that was told to stop still takes requests, while it says that it is not ready. */
  EDGETIER_DRAIN_LINGER_MS: wholeNumber(200, 0, 600_000),
  /** How long a server that was told to stop goes on answering what it has taken. */
  EDGETIER_DRAIN_TIMEOUT_MS: wholeNumber(10_000, 0, 600_000),
});
export type RegionSettings = z.output<typeof schema>;

/** @throws invalid_configuration with every problem */
export const readRegionSettings = (environment: object): RegionSettings => parseConfig(schema, environment);
