// Edge variables: required, unknown and secret ones, and their names in wrangler.toml.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { PROJECT_ROOT } from "../../src/cli/local/paths.ts";
import {
  EDGE_SECRETS,
  missingVariables,
  requiredVariables,
  unknownVariables,
} from "../../src/http/edge-variables.ts";

const STORE = [
  "EDGETIER_S3_ENDPOINT",
  "EDGETIER_S3_BUCKET",
  "EDGETIER_S3_ACCESS_KEY_ID",
  "EDGETIER_S3_SECRET_ACCESS_KEY",
];

it("requires only the variables of the model store", () => {
  expect(requiredVariables().toSorted()).toEqual(STORE.toSorted());
  expect(missingVariables(new Set(STORE))).toEqual([]);
  expect(missingVariables(new Set(["EDGETIER_S3_BUCKET"]))).toEqual([
    "EDGETIER_S3_ENDPOINT",
    "EDGETIER_S3_ACCESS_KEY_ID",
    "EDGETIER_S3_SECRET_ACCESS_KEY",
  ]);
});

it("requires a token for a Redis URL", () => {
  expect(missingVariables(new Set([...STORE, "EDGETIER_REDIS_REST_URL"]))).toEqual([
    "EDGETIER_REDIS_REST_TOKEN",
  ]);
});

it("reports unknown EDGETIER_ variables, and ignores those of other software", () => {
  expect(unknownVariables(["EDGETIER_S3_ENDPIONT", "EDGETIER_API_KEYS", "SENTRY_DSN"])).toEqual([
    "EDGETIER_S3_ENDPIONT",
  ]);
});

it("finds every secret named in wrangler.toml, and none set", async () => {
  const config = await readFile(join(PROJECT_ROOT, "wrangler.toml"), "utf8");
  for (const name of EDGE_SECRETS) {
    expect(config).toMatch(new RegExp(`^#.*\\b${name}\\b`, "m"));
    expect(config).not.toMatch(new RegExp(`^${name} *=`, "m"));
  }
});
