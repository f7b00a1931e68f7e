// Edge variables: lists the required ones and the secrets, for deployment tools. The Worker does not import this file.

import { edgeVariableSchemas } from "./config.ts";

/** Set them with `wrangler secret put`, never in wrangler.toml. */
export const EDGE_SECRETS = [
  "EDGETIER_S3_ENDPOINT",
  "EDGETIER_S3_ACCESS_KEY_ID",
  "EDGETIER_S3_SECRET_ACCESS_KEY",
  "EDGETIER_REGION_URL",
  "EDGETIER_REGIONS",
  "EDGETIER_REGION_KEY",
  "EDGETIER_REDIS_REST_URL",
  "EDGETIER_REDIS_REST_TOKEN",
  "EDGETIER_API_KEYS",
] as const satisfies readonly (keyof ReturnType<typeof edgeVariableSchemas>)[];

/** Pairs of which each variable requires the other. */
const REQUIRED_TOGETHER = [["EDGETIER_REDIS_REST_URL", "EDGETIER_REDIS_REST_TOKEN"]] as const;

/** Variables without a default value. */
export const requiredVariables = (): string[] =>
  Object.entries(edgeVariableSchemas()).flatMap(([name, schema]) =>
    schema.safeParse(undefined).success ? [] : [name],
  );

/** @param present names of all variables and secrets that are set */
export function missingVariables(present: ReadonlySet<string>): string[] {
  const missing = [
    ...requiredVariables(),
    ...REQUIRED_TOGETHER.flatMap((pair) => (pair.some((name) => present.has(name)) ? pair : [])),
  ];
  return [...new Set(missing)].filter((name) => !present.has(name));
}

/** Names that the edge does not read, such as misspelled ones. */
export const unknownVariables = (names: readonly string[]): string[] =>
  names.filter(
    (name) => name.startsWith("EDGETIER_") && !Object.hasOwn(edgeVariableSchemas(), name),
  );
