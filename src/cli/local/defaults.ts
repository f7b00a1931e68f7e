// Where the local system listens and keeps its models, unless a variable says otherwise.

import { integerText } from "../../core/config.ts";

export const LOOPBACK = "127.0.0.1";

/** Each is changed by the variable of its name; 0 is any free port. */
export const DEFAULT_PORTS = {
  EDGETIER_PORT: 8787,
  EDGETIER_REGION_PORT: 8788,
  EDGETIER_S3_PORT: 8789,
  EDGETIER_REDIS_REST_PORT: 8790,
} as const;
export type PortVariable = keyof typeof DEFAULT_PORTS;

export const localPort = (variable: PortVariable) =>
  integerText(DEFAULT_PORTS[variable], 0, 65_535);

/** Not secret: the local S3 listens on loopback only. */
export const LOCAL_S3 = {
  bucket: "edgetier-models",
  region: "auto",
  accessKeyId: "edgetier",
  secretAccessKey: "edgetier-local",
} as const;

export const localS3Endpoint = (port: number): string =>
  `http://${LOOPBACK}:${port}/cdn-cgi/local/r2/s3`;
