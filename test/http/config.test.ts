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

function configError(variables: object): string {
  try {
    parseEdgeConfig(variables);
  } catch (error) {
    if (error instanceof EdgeTierError && error.code === "invalid_configuration")
      return error.detail;
    throw error;
  }
  throw new Error("it was accepted");
}

describe("the edge's configuration", () => {
  it("needs only the model store; everything else has a working default", () => {
    expect(parseEdgeConfig(completeConfig)).toMatchObject({
      EDGETIER_S3_ENDPOINT: "https://s3.example.com",
      EDGETIER_S3_REGION: "auto",
      EDGETIER_REDIS_TIMEOUT_MS: 50,
      EDGETIER_MAX_BODY_BYTES: 262_144,
    });
  });

  it("reports everything that is missing or wrong at once, and no secret", () => {
    const { EDGETIER_S3_ENDPOINT: _, ...rest } = completeConfig;
    const detail = configError({
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

  it("takes keys to trust, and never a part of them", () => {
    const key = Buffer.alloc(32, 7).toString("base64");
    expect(parseEdgeConfig(completeConfig).EDGETIER_TRUSTED_KEYS).toBeUndefined();
    expect(
      parseEdgeConfig({ ...completeConfig, EDGETIER_TRUSTED_KEYS: `${key},${key}` })
        .EDGETIER_TRUSTED_KEYS,
    ).toHaveLength(2);
    expect(configError({ ...completeConfig, EDGETIER_TRUSTED_KEYS: `${key},half` })).toContain(
      "EDGETIER_TRUSTED_KEYS",
    );
  });

  it("takes the region's key, and shows nothing of one that is wrong", () => {
    const key = `edge-1:${Buffer.alloc(32, 7).toString("base64")}`;
    expect(
      parseEdgeConfig({ ...completeConfig, EDGETIER_REGION_KEY: key }).EDGETIER_REGION_KEY,
    ).toEqual({
      id: "edge-1",
      secret: new Uint8Array(32).fill(7),
    });
    const detail = configError({ ...completeConfig, EDGETIER_REGION_KEY: key.slice(0, -8) });
    expect([
      detail.includes("EDGETIER_REGION_KEY: must be"),
      detail.includes(key.slice(7, 20)),
    ]).toEqual([true, false]);
  });

  it("takes the binding of a client certificate, and calls it as a binding wants to be", async () => {
    const sent: unknown[] = [];
    const binding = {
      name: "certificate",
      async fetch(url: string, init: RequestInit) {
        sent.push([this.name, url, init.method]);
        return new Response();
      },
    };
    const { EDGETIER_REGION_CERTIFICATE: send } = parseEdgeConfig({
      ...completeConfig,
      EDGETIER_REGION_CERTIFICATE: binding,
    });
    await send?.("https://region.test/v2", { method: "GET" });
    expect(sent).toEqual([["certificate", "https://region.test/v2", "GET"]]);
    expect(configError({ ...completeConfig, EDGETIER_REGION_CERTIFICATE: "cert.pem" })).toContain(
      "EDGETIER_REGION_CERTIFICATE: must be a binding",
    );
  });

  it("wants Redis' address and token together", () => {
    expect(
      configError({ ...completeConfig, EDGETIER_REDIS_REST_URL: "https://redis.example.com" }),
    ).toContain("go together");
  });

  describe("of regions", () => {
    const regions = (value: unknown, more: object = {}) =>
      parseEdgeConfig({ ...completeConfig, EDGETIER_REGIONS: JSON.stringify(value), ...more });

    it("is a list, or one address", () => {
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
        /keep one of them/,
      );
    });

    it.each([
      ["no JSON", "eu", /must be JSON/],
      ["no list", "{}", /array/],
      ["an empty list", "[]", /EDGETIER_REGIONS/],
      ["another address than http", '[{"id":"a","url":"file:///etc/passwd"}]', /0\.url.*http/],
      ["the same id twice", '[{"id":"a","url":"http://a"},{"id":"a","url":"http://b"}]', /same id/],
      ["an id that is none", '[{"id":"A b","url":"http://a"}]', /0\.id/],
      [
        "a place off the Earth",
        '[{"id":"a","url":"http://a","place":{"latitudeDegrees":91,"longitudeDegrees":0}}]',
        /latitudeDegrees/,
      ],
      ["a field that is none", '[{"id":"a","url":"http://a","weight":3}]', /weight/],
    ])("refuses %s", (_what, text, problem) => {
      expect(configError({ ...completeConfig, EDGETIER_REGIONS: text })).toMatch(problem);
    });
  });
});
