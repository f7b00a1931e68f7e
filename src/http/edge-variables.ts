// Which of the edge's variables a deployment must have, and which of them are secrets. The Worker itself does not need this.

import { edgeVariableSchemas } from "./config.ts";

/** Set with `wrangler secret put`; they may not stand in wrangler.toml. */
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

/** One is of no use without the other. */
const REQUIRED_TOGETHER = [["EDGETIER_REDIS_REST_URL", "EDGETIER_REDIS_REST_TOKEN"]] as const;

/** Without which no Worker answers: they have no default. */
export const requiredVariables = (): string[] =>
  Object.entries(edgeVariableSchemas()).flatMap(([name, schema]) =>
    schema.safeParse(undefined).success ? [] : [name],
  );

/** @param have the names of all that are set, as variables or as secrets */
export function missingVariables(have: ReadonlySet<string>): string[] {
  const missing = [
    ...requiredVariables(),
    ...REQUIRED_TOGETHER.flatMap((pair) => (pair.some((name) => have.has(name)) ? pair : [])),
  ];
  return [...new Set(missing)].filter((name) => !have.has(name));
}

/** Names that no edge reads: misspelt ones are as if they were not there. */
export const unknownVariables = (names: readonly string[]): string[] =>
  names.filter(
    (name) => name.startsWith("EDGETIER_") && !Object.hasOwn(edgeVariableSchemas(), name),
  );
