// Defaults of the local system: ports, loopback address and S3 settings.

import { integerText } from "../../core/config.ts";

export const LOOPBACK = "127.0.0.1";

/** Default ports by the variable that overrides them. 0 selects any free port. */
export const DEFAULT_PORTS = {
  EDGETIER_PORT: 8787,
  EDGETIER_REGION_PORT: 8788,
  EDGETIER_S3_PORT: 8789,
  EDGETIER_REDIS_REST_PORT: 8790,
} as const;
export type PortVariable = keyof typeof DEFAULT_PORTS;

export const localPort = (variable: PortVariable) =>
  integerText(DEFAULT_PORTS[variable], 0, 65_535);

/** The credentials are not secret, because the local S3 listens only on loopback. */
export const LOCAL_S3 = {
  bucket: "edgetier-models",
  region: "auto",
  accessKeyId: "edgetier",
  secretAccessKey: "edgetier-local",
} as const;

export const localS3Endpoint = (port: number): string =>
  `http://${LOOPBACK}:${port}/cdn-cgi/local/r2/s3`;
