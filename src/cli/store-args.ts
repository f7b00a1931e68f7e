// Store arguments: opens the model store from options, else from EDGETIER_S3_* variables, else the local system's.

import * as z from "zod";
import { httpUrlText, parseConfig } from "../core/config.ts";
import { createS3ObjectStore } from "../registry/drivers/s3.ts";
import type { ModelStore } from "../registry/model-store.ts";
import { createModelStore } from "../registry/object-model-store.ts";
import type { ObjectStore } from "../registry/object-store.ts";
import { publishingErrors } from "../registry/publishing-errors.ts";
import { toS3Options } from "../registry/s3-config.ts";
import { type PublicKey, type SigningKey, trustVariableSchemas } from "../registry/signing-keys.ts";
import { LOCAL_S3, localPort, localS3Endpoint } from "./local/defaults.ts";

export const storeArgs = {
  "s3-endpoint": {
    type: "string",
    valueHint: "url",
    description: "S3 address; by default EDGETIER_S3_ENDPOINT, or the local system's",
  },
  "s3-bucket": {
    type: "string",
    valueHint: "name",
    description:
      "S3 bucket; by default EDGETIER_S3_BUCKET. Credentials: EDGETIER_S3_ACCESS_KEY_ID and EDGETIER_S3_SECRET_ACCESS_KEY",
  },
  "s3-region": {
    type: "string",
    valueHint: "name",
    description: "S3 region; by default EDGETIER_S3_REGION",
  },
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
  /** The keys in EDGETIER_TRUSTED_KEYS. */
  readonly trustedKeys: readonly PublicKey[] | undefined;
}

/** @throws invalid_configuration */
function openConfiguredStore(args: StoreArgs, environment: NodeJS.ProcessEnv): OpenedStore {
  const options = {
    EDGETIER_S3_ENDPOINT: args["s3-endpoint"],
    EDGETIER_S3_BUCKET: args["s3-bucket"],
    EDGETIER_S3_REGION: args["s3-region"],
  };
  const overrides = Object.fromEntries(
    Object.entries(options).filter(([, value]) => value !== undefined),
  );
  const config = parseConfig(schema, { ...environment, ...overrides });
  const endpoint = config.EDGETIER_S3_ENDPOINT ?? localS3Endpoint(config.EDGETIER_S3_PORT);
  return {
    objectStore: createS3ObjectStore(toS3Options({ ...config, EDGETIER_S3_ENDPOINT: endpoint })),
    trustedKeys: config.EDGETIER_TRUSTED_KEYS,
  };
}

/** Opens the object store under the model store. @throws invalid_configuration */
export const openObjectStore = (
  args: StoreArgs,
  environment: NodeJS.ProcessEnv = process.env,
): ObjectStore => openConfiguredStore(args, environment).objectStore;

/** Opens the model store, which trusts the keys in EDGETIER_TRUSTED_KEYS. @throws invalid_configuration */
export function openModelStore(
  args: StoreArgs,
  environment: NodeJS.ProcessEnv = process.env,
): ModelStore {
  const { objectStore, trustedKeys } = openConfiguredStore(args, environment);
  return createModelStore(objectStore, { trustedKeys });
}

/**
 * Opens the model store for publishing with these keys. Manifests without a signature of one of them are ignored.
 * @throws invalid_configuration; would_not_be_trusted if EDGETIER_TRUSTED_KEYS contains none of the keys
 */
export function openPublishingStore(
  args: StoreArgs,
  signingKeys: readonly SigningKey[],
  environment: NodeJS.ProcessEnv = process.env,
): ModelStore {
  const { objectStore, trustedKeys } = openConfiguredStore(args, environment);
  const publicKeys = signingKeys.map(({ publicKey }) => publicKey);
  const trustedSigningKeys =
    trustedKeys === undefined
      ? publicKeys
      : publicKeys.filter((key) =>
          trustedKeys.some((trusted) => trusted.toString() === key.toString()),
        );
  if (trustedKeys !== undefined && trustedSigningKeys.length === 0)
    throw publishingErrors.wouldNotBeTrusted(
      publicKeys.length === 0
        ? "its manifest has no signature"
        : "EDGETIER_TRUSTED_KEYS contains none of its signing keys",
    );
  return createModelStore(objectStore, {
    trustedKeys: trustedSigningKeys.length === 0 ? undefined : trustedSigningKeys,
    signingKeys,
  });
}
