// Access configuration: accepted values, and rejected ones without their secrets.
import { describe, expect, it } from "vitest";
import { ManualClock } from "../../../src/core/clock.ts";
import { EdgeTierError } from "../../../src/core/errors.ts";
import { createConfiguredAccessPolicy } from "../../../src/http/access/drivers/configured-access-policy.ts";
import { parseEdgeConfig } from "../../../src/http/config.ts";
import { createTestIssuer } from "../../support/test-credentials.ts";

const STORE = {
  EDGETIER_S3_ENDPOINT: "https://s3.example.com",
  EDGETIER_S3_BUCKET: "models",
  EDGETIER_S3_ACCESS_KEY_ID: "id",
  EDGETIER_S3_SECRET_ACCESS_KEY: "secret",
};
const TOKENS = {
  EDGETIER_JWT_ISSUER: "https://issuer.test/",
  EDGETIER_JWT_AUDIENCE: "https://edge.test",
  EDGETIER_JWT_ALGORITHM: "ES256",
  EDGETIER_JWT_JWKS_URL: "https://issuer.test/keys",
};
const entry = { id: "first", sha256: "a".repeat(64), tenant: "acme", scopes: ["predict"] };
const keys = (...entries: object[]) => ({ EDGETIER_API_KEYS: JSON.stringify(entries) });

const parseAccess = (variables: object) =>
  createConfiguredAccessPolicy(parseEdgeConfig({ ...STORE, ...variables }), {
    clock: new ManualClock(),
    log: () => {},
  });

function readConfigProblem(variables: object): string {
  try {
    parseAccess(variables);
  } catch (error) {
    if (error instanceof EdgeTierError && error.code === "invalid_configuration")
      return error.detail;
    throw error;
  }
  throw new Error("The configuration was accepted.");
}

describe("createConfiguredAccessPolicy", () => {
  it("is public, without limits and CORS, by default", () => {
    expect(parseAccess({})).toEqual({
      authenticators: [],
      rateLimits: undefined,
      corsOrigins: undefined,
      metricsScope: "admin",
    });
  });

  it("accepts keys, tokens, limits and origins", async () => {
    const { jwks } = await createTestIssuer("ES256");
    expect(parseAccess(keys(entry)).authenticators).toHaveLength(1);
    expect(parseAccess({ ...keys(entry), ...TOKENS }).authenticators).toHaveLength(2);
    expect(
      parseAccess({ ...TOKENS, EDGETIER_JWT_JWKS_URL: "", EDGETIER_JWT_JWKS: JSON.stringify(jwks) })
        .authenticators,
    ).toHaveLength(1);
    expect(
      parseAccess({ EDGETIER_RATE_LIMIT: "100/60", EDGETIER_ADDRESS_RATE_LIMIT: "20/10" })
        .rateLimits,
    ).toMatchObject({
      perPrincipal: { requests: 100, windowSeconds: 60 },
      perAddress: { requests: 20, windowSeconds: 10 },
      addressHeader: "cf-connecting-ip",
    });
    expect(
      parseAccess(keys({ ...entry, rateLimit: { requests: 5, windowSeconds: 1 } })).rateLimits,
    ).toMatchObject({ perPrincipal: undefined });
    expect(
      parseAccess({ EDGETIER_CORS_ORIGINS: "https://app.test, http://localhost:5173" }).corsOrigins,
    ).toEqual(["https://app.test", "http://localhost:5173"]);
  });
});

describe("createConfiguredAccessPolicy with invalid variables", () => {
  it.each([
    ["text that is not JSON", { EDGETIER_API_KEYS: "edgetier_0123456789" }],
    ["an empty list, which would open the edge by mistake", keys()],
    ["a key in place of its hash", keys({ ...entry, sha256: "edgetier_0123456789" })],
    ["an unknown scope", keys({ ...entry, scopes: ["everything"] })],
    ["a misspelled field", keys({ ...entry, expires: "2030-01-01T00:00:00Z" })],
    ["an invalid date", keys({ ...entry, expiresAt: "soon" })],
    ["a repeated id", keys(entry, entry)],
  ])("rejects %s, without repeating its value", (_name, variables) => {
    const detail = readConfigProblem(variables);
    expect(detail).toContain("EDGETIER_API_KEYS");
    expect(detail).not.toContain("edgetier_0123456789");
  });

  it.each([
    ["tokens without an audience", { ...TOKENS, EDGETIER_JWT_AUDIENCE: "" }, "EDGETIER_JWT_ISSUER"],
    [
      "a key set URL alone",
      { EDGETIER_JWT_JWKS_URL: TOKENS.EDGETIER_JWT_JWKS_URL },
      "EDGETIER_JWT_ISSUER",
    ],
    [
      "keys from two sources",
      { ...TOKENS, EDGETIER_JWT_JWKS: '{"keys":[{}]}' },
      "EDGETIER_JWT_ISSUER",
    ],
    [
      "a symmetric algorithm",
      { ...TOKENS, EDGETIER_JWT_ALGORITHM: "HS256" },
      "EDGETIER_JWT_ALGORITHM",
    ],
    [
      "no algorithm at all",
      { ...TOKENS, EDGETIER_JWT_ALGORITHM: "none" },
      "EDGETIER_JWT_ALGORITHM",
    ],
    [
      "keys over plain HTTP",
      { ...TOKENS, EDGETIER_JWT_JWKS_URL: "http://issuer.test/keys" },
      "EDGETIER_JWT_JWKS_URL",
    ],
    ["a limit of 0 requests", { EDGETIER_RATE_LIMIT: "0/60" }, "EDGETIER_RATE_LIMIT"],
    [
      "* together with an origin",
      { EDGETIER_CORS_ORIGINS: "*,https://app.test" },
      "EDGETIER_CORS_ORIGINS",
    ],
    [
      "an origin with a path",
      { EDGETIER_CORS_ORIGINS: "https://app.test/" },
      "EDGETIER_CORS_ORIGINS",
    ],
    ["an invalid origin", { EDGETIER_CORS_ORIGINS: "null" }, "EDGETIER_CORS_ORIGINS"],
  ])("rejects %s", (_name, variables, variable) =>
    expect(readConfigProblem(variables)).toContain(variable),
  );
});
