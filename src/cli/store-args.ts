// Which model store a command works on: options, then EDGETIER_S3_* variables, then the local system's.

import { publishingErrors } from "../registry/publishing-errors.ts";
import * as z from "zod";
import { httpUrlText, parseConfig } from "../core/config.ts";
import { createS3ObjectStore } from "../registry/drivers/s3.ts";
import type { ModelStore } from "../registry/model-store.ts";
import type { ObjectStore } from "../registry/object-store.ts";
import { toS3Options } from "../registry/s3-config.ts";
import { type PublicKey, type SigningKey, trustVariableSchemas } from "../registry/signing-keys.ts";
import { createModelStore } from "../registry/object-model-store.ts";
import { LOCAL_S3, localPort, localS3Endpoint } from "./local/defaults.ts";

export const storeArgs = {
  "s3-endpoint": {
    type: "string",
    valueHint: "url",
    description: "S3 address; otherwise EDGETIER_S3_ENDPOINT, otherwise the local system's",
  },
  "s3-bucket": {
    type: "string",
    valueHint: "name",
    description:
      "Otherwise EDGETIER_S3_BUCKET; the keys come from EDGETIER_S3_ACCESS_KEY_ID and EDGETIER_S3_SECRET_ACCESS_KEY",
  },
  "s3-region": { type: "string", valueHint: "name", description: "Otherwise EDGETIER_S3_REGION" },
} as const;

const schema = z.object({
  EDGETIER_S3_PORT: localPort("EDGETIER_S3_PORT"),
  EDGETIER_S3_ENDPOINT: httpUrlText().optional(),
  EDGETIER_S3_BUCKET: z.string().default(LOCAL_S3.bucket),
  EDGETIER_S3_REGION: z.string().default(LOCAL_S3.region),
  EDGETIER_S3_ACCESS_KEY_ID: z.string().default(LOCAL_S3.accessKeyId),
  EDGETIER_S3_SECRET_ACCESS_KEY: z.string().default(LOCAL_S3.secretAccessKey),
  ...trustVariableSchemas,
});

export interface StoreArgs {
  readonly "s3-endpoint"?: string | undefined;
  readonly "s3-bucket"?: string | undefined;
  readonly "s3-region"?: string | undefined;
}

interface OpenedStore {
  readonly objectStore: ObjectStore;
  /** Of EDGETIER_TRUSTED_KEYS. */
  readonly trustedKeys: readonly PublicKey[] | undefined;
}

/** @throws invalid_configuration */
function openConfiguredStore(args: StoreArgs, environment: NodeJS.ProcessEnv): OpenedStore {
  const given = {
    EDGETIER_S3_ENDPOINT: args["s3-endpoint"],
    EDGETIER_S3_BUCKET: args["s3-bucket"],
    EDGETIER_S3_REGION: args["s3-region"],
  };
  const present = Object.fromEntries(
    Object.entries(given).filter(([, value]) => value !== undefined),
  );
  const config = parseConfig(schema, { ...environment, ...present });
  const endpoint = config.EDGETIER_S3_ENDPOINT ?? localS3Endpoint(config.EDGETIER_S3_PORT);
  return {
    objectStore: createS3ObjectStore(toS3Options({ ...config, EDGETIER_S3_ENDPOINT: endpoint })),
    trustedKeys: config.EDGETIER_TRUSTED_KEYS,
  };
}

/** @throws invalid_configuration */
export const openObjectStore = (
  args: StoreArgs,
  environment: NodeJS.ProcessEnv = process.env,
): ObjectStore => openConfiguredStore(args, environment).objectStore;

/** Trusts the keys of EDGETIER_TRUSTED_KEYS. @throws invalid_configuration */
export function openModelStore(
  args: StoreArgs,
  environment: NodeJS.ProcessEnv = process.env,
): ModelStore {
  const { objectStore: objects, trustedKeys } = openConfiguredStore(args, environment);
  return createModelStore(objects, { trustedKeys });
}

/**
 * To sign with these keys; what they have not signed is as if it were not there.
 * @throws invalid_configuration; would_not_be_trusted where those who read it trust none of the keys
 */
export function openPublishingStore(
  args: StoreArgs,
  signingKeys: readonly SigningKey[],
  environment: NodeJS.ProcessEnv = process.env,
): ModelStore {
  const { objectStore: objects, trustedKeys } = openConfiguredStore(args, environment);
  const own = signingKeys.map(({ publicKey }) => publicKey);
  const believed =
    trustedKeys === undefined
      ? own
      : own.filter((key) => trustedKeys.some((trusted) => trusted.toString() === key.toString()));
  if (trustedKeys !== undefined && believed.length === 0)
    throw publishingErrors.wouldNotBeTrusted(
      own.length === 0
        ? "it is not signed"
        : "EDGETIER_TRUSTED_KEYS has none of the keys that sign it",
    );
  return createModelStore(objects, {
    trustedKeys: believed.length === 0 ? undefined : believed,
    signingKeys,
  });
}
