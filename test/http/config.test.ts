// Edge configuration: defaults, accepted values, and rejected ones without their secrets.
import { describe, expect, it } from "vitest";
import { EdgeTierError } from "../../src/core/errors.ts";
import { parseEdgeConfig } from "../../src/http/config.ts";
import { resolveRegions } from "../../src/region/client/regions-config.ts";

const completeConfig = {
  EDGETIER_S3_ENDPOINT: "https://s3.example.com/",
  EDGETIER_S3_BUCKET: "models",
  EDGETIER_S3_ACCESS_KEY_ID: "id",
  EDGETIER_S3_SECRET_ACCESS_KEY: "secret",
};

function readConfigProblem(variables: object): string {
  try {
    parseEdgeConfig(variables);
  } catch (error) {
    if (error instanceof EdgeTierError && error.code === "invalid_configuration")
      return error.detail;
    throw error;
  }
  throw new Error("The configuration was accepted.");
}

describe("parseEdgeConfig", () => {
  it("requires only the model store, and has defaults for the rest", () => {
    expect(parseEdgeConfig(completeConfig)).toMatchObject({
      EDGETIER_S3_ENDPOINT: "https://s3.example.com",
      EDGETIER_S3_REGION: "auto",
      EDGETIER_REDIS_TIMEOUT_MS: 50,
      EDGETIER_MAX_BODY_BYTES: 262_144,
    });
  });

  it("reports all missing and invalid variables together, without secrets", () => {
    const { EDGETIER_S3_ENDPOINT: _, ...rest } = completeConfig;
    const detail = readConfigProblem({
      ...rest,
      EDGETIER_S3_BUCKET: "",
      EDGETIER_MAX_INPUTS: "many",
      EDGETIER_L1_MAX_BYTES: "-1",
      EDGETIER_REGION_URL: "ftp://region",
    });
    for (const name of [
      "EDGETIER_S3_ENDPOINT",
      "EDGETIER_S3_BUCKET",
      "EDGETIER_MAX_INPUTS",
      "EDGETIER_L1_MAX_BYTES",
      "EDGETIER_REGION_URL",
    ]) {
      expect(detail).toContain(name);
    }
    expect(detail).not.toContain(completeConfig.EDGETIER_S3_SECRET_ACCESS_KEY);
  });

  it("accepts trusted keys, all of them or none", () => {
    const key = Buffer.alloc(32, 7).toString("base64");
    expect(parseEdgeConfig(completeConfig).EDGETIER_TRUSTED_KEYS).toBeUndefined();
    expect(
      parseEdgeConfig({ ...completeConfig, EDGETIER_TRUSTED_KEYS: `${key},${key}` })
        .EDGETIER_TRUSTED_KEYS,
    ).toHaveLength(2);
    expect(
      readConfigProblem({ ...completeConfig, EDGETIER_TRUSTED_KEYS: `${key},half` }),
    ).toContain("EDGETIER_TRUSTED_KEYS");
  });
});

describe("parseEdgeConfig with region access", () => {
  it("accepts the region key, and reveals nothing of an invalid one", () => {
    const key = `edge-1:${Buffer.alloc(32, 7).toString("base64")}`;
    expect(
      parseEdgeConfig({ ...completeConfig, EDGETIER_REGION_KEY: key }).EDGETIER_REGION_KEY,
    ).toEqual({
      id: "edge-1",
      secret: new Uint8Array(32).fill(7),
    });
    const detail = readConfigProblem({ ...completeConfig, EDGETIER_REGION_KEY: key.slice(0, -8) });
    expect(detail).toContain("EDGETIER_REGION_KEY");
    expect(detail).not.toContain(key.slice(7, 20));
  });

  it("accepts the binding of a client certificate, and calls it as a method", async () => {
    const calls: unknown[] = [];
    const binding = {
      name: "certificate",
      async fetch(url: string, init: RequestInit) {
        calls.push({ name: this.name, url, method: init.method });
        return new Response();
      },
    };
    const { EDGETIER_REGION_CERTIFICATE: send } = parseEdgeConfig({
      ...completeConfig,
      EDGETIER_REGION_CERTIFICATE: binding,
    });
    await send?.("https://region.test/v2", { method: "GET" });
    expect(calls).toEqual([{ name: "certificate", url: "https://region.test/v2", method: "GET" }]);
    expect(
      readConfigProblem({ ...completeConfig, EDGETIER_REGION_CERTIFICATE: "cert.pem" }),
    ).toContain("EDGETIER_REGION_CERTIFICATE");
  });

  it("requires the Redis URL and token together", () => {
    expect(
      readConfigProblem({
        ...completeConfig,
        EDGETIER_REDIS_REST_URL: "https://redis.example.com",
      }),
    ).toContain("EDGETIER_REDIS_REST_TOKEN");
  });
});

describe("parseEdgeConfig with regions", () => {
  const regions = (value: unknown, more: object = {}) =>
    parseEdgeConfig({ ...completeConfig, EDGETIER_REGIONS: JSON.stringify(value), ...more });

  it("accepts a list of regions, or one URL", () => {
    const eu = {
      id: "eu-1",
      url: "https://eu.example.com/",
      place: { latitudeDegrees: 50.1, longitudeDegrees: 8.7 },
      publicUrl: "https://public.example.com",
    };
    expect(resolveRegions(regions([eu, { id: "us", url: "http://us" }]))).toEqual([
      { ...eu, url: "https://eu.example.com" },
      { id: "us", url: "http://us" },
    ]);
    expect(
      resolveRegions(
        parseEdgeConfig({ ...completeConfig, EDGETIER_REGION_URL: "http://region:8788/" }),
      ),
    ).toEqual([{ id: "default", url: "http://region:8788" }]);
    expect(resolveRegions(parseEdgeConfig(completeConfig))).toEqual([]);
    expect(() => resolveRegions(regions([eu], { EDGETIER_REGION_URL: "http://region" }))).toThrow(
      expect.objectContaining({ code: "invalid_configuration" }),
    );
  });

  it.each([
    ["text that is not JSON", "eu", "EDGETIER_REGIONS"],
    ["an object", "{}", "EDGETIER_REGIONS"],
    ["an empty list", "[]", "EDGETIER_REGIONS"],
    ["a URL that is not http", '[{"id":"a","url":"file:///etc/passwd"}]', "EDGETIER_REGIONS.0.url"],
    [
      "a repeated id",
      '[{"id":"a","url":"http://a"},{"id":"a","url":"http://b"}]',
      "EDGETIER_REGIONS",
    ],
    ["an invalid id", '[{"id":"A b","url":"http://a"}]', "EDGETIER_REGIONS.0.id"],
    [
      "a latitude beyond 90 degrees",
      '[{"id":"a","url":"http://a","place":{"latitudeDegrees":91,"longitudeDegrees":0}}]',
      "EDGETIER_REGIONS.0.place.latitudeDegrees",
    ],
    ["an unknown field", '[{"id":"a","url":"http://a","weight":3}]', "weight"],
  ])("rejects %s", (_name, text, path) => {
    expect(readConfigProblem({ ...completeConfig, EDGETIER_REGIONS: text })).toContain(path);
  });
});
