// Location of an S3 model store, as options and as the environment variables of every program.

import * as z from "zod";
import { httpUrlText } from "../core/config.ts";

export interface S3Options {
  /** URL of the service. The bucket becomes the first part of the path. */
  readonly endpoint: string;
  readonly bucket: string;
  readonly region: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  /** Timeout of one request, including its body. */
  readonly timeoutMs?: number;
}

/** Part of a program's configuration schema. */
export const s3VariableSchemas = {
  EDGETIER_S3_ENDPOINT: httpUrlText(),
  EDGETIER_S3_BUCKET: z.string().min(1),
  EDGETIER_S3_REGION: z.string().min(1).default("auto"),
  EDGETIER_S3_ACCESS_KEY_ID: z.string().min(1),
  EDGETIER_S3_SECRET_ACCESS_KEY: z.string().min(1),
};

export type S3Variables = { readonly [Name in keyof typeof s3VariableSchemas]: string };

export function toS3Options(variables: S3Variables): S3Options {
  return {
    endpoint: variables.EDGETIER_S3_ENDPOINT,
    bucket: variables.EDGETIER_S3_BUCKET,
    region: variables.EDGETIER_S3_REGION,
    accessKeyId: variables.EDGETIER_S3_ACCESS_KEY_ID,
    secretAccessKey: variables.EDGETIER_S3_SECRET_ACCESS_KEY,
  };
}

/** Converts options to variables, to start a program; inverse of `toS3Options`. */
export function toS3Variables(options: S3Options): S3Variables {
  return {
    EDGETIER_S3_ENDPOINT: options.endpoint,
    EDGETIER_S3_BUCKET: options.bucket,
    EDGETIER_S3_REGION: options.region,
    EDGETIER_S3_ACCESS_KEY_ID: options.accessKeyId,
    EDGETIER_S3_SECRET_ACCESS_KEY: options.secretAccessKey,
  };
}
