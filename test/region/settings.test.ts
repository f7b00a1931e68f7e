// Settings of the region; process.test.ts covers those of the object store.
import { describe, expect, it } from "vitest";
import { readRegionSettings } from "../../functions/region/settings.ts";
import { generateRegionKey, formatRegionKey } from "../../src/region/region-keys.ts";

const s3 = {
  EDGETIER_S3_ENDPOINT: "http://127.0.0.1:1",
  EDGETIER_S3_BUCKET: "b",
  EDGETIER_S3_ACCESS_KEY_ID: "k",
  EDGETIER_S3_SECRET_ACCESS_KEY: "s",
};
const readSettings = (variables: object) => readRegionSettings({ ...s3, ...variables });

/** Matches `invalid_configuration` whose detail names the problem. */
const invalidConfiguration = (problem: string | RegExp) =>
  expect.objectContaining({
    code: "invalid_configuration",
    detail: expect.stringMatching(problem),
  });

describe("batching settings", () => {
  it("have working defaults", () => {
    expect(readSettings({})).toMatchObject({
      EDGETIER_REGION_BATCHING: "fixed",
      EDGETIER_REGION_MAX_BATCH_ROWS: 32,
      EDGETIER_REGION_MAX_QUEUE_DELAY_US: 0,
      EDGETIER_REGION_PREFERRED_BATCH_ROWS: [],
    });
  });

  it("accept comma-separated sizes", () => {
    expect(
      readSettings({ EDGETIER_REGION_PREFERRED_BATCH_ROWS: "4, 8,16" })
        .EDGETIER_REGION_PREFERRED_BATCH_ROWS,
    ).toEqual([4, 8, 16]);
  });

  it.each([
    [{ EDGETIER_REGION_BATCHING: "on" }, "EDGETIER_REGION_BATCHING"],
    [{ EDGETIER_REGION_PREFERRED_BATCH_ROWS: "4,0" }, "EDGETIER_REGION_PREFERRED_BATCH_ROWS"],
    [{ EDGETIER_REGION_PREFERRED_BATCH_ROWS: "4,,8" }, "EDGETIER_REGION_PREFERRED_BATCH_ROWS"],
    [
      { EDGETIER_REGION_PREFERRED_BATCH_ROWS: "8,64", EDGETIER_REGION_MAX_BATCH_ROWS: "16" },
      /EDGETIER_REGION_PREFERRED_BATCH_ROWS.*64.*EDGETIER_REGION_MAX_BATCH_ROWS=16/,
    ],
  ])("reject %o", (variables, problem) => {
    expect(() => readSettings(variables)).toThrow(invalidConfiguration(problem));
  });
});

describe("trust settings", () => {
  it("accept public keys, and reject a list with an empty entry", () => {
    const key = Buffer.alloc(32, 7).toString("base64");
    expect(readSettings({}).EDGETIER_TRUSTED_KEYS).toBeUndefined();
    expect(readSettings({ EDGETIER_TRUSTED_KEYS: key }).EDGETIER_TRUSTED_KEYS).toHaveLength(1);
    expect(() => readSettings({ EDGETIER_TRUSTED_KEYS: `${key},` })).toThrow(
      invalidConfiguration("EDGETIER_TRUSTED_KEYS"),
    );
  });
});

describe("authentication settings", () => {
  const text = formatRegionKey(generateRegionKey("edge-1"));

  it("accept keys, and allow every client without keys", () => {
    expect(readSettings({}).EDGETIER_REGION_KEYS).toBeUndefined();
    expect(readSettings({}).EDGETIER_REGION_OPEN_PATHS).toEqual([
      "/v2/health/live",
      "/v2/health/ready",
      "/metrics",
    ]);
    expect(
      readSettings({ EDGETIER_REGION_KEYS: `${text}, edge-2:${text.slice(7)}` })
        .EDGETIER_REGION_KEYS,
    ).toMatchObject([{ id: "edge-1" }, { id: "edge-2" }]);
  });

  it.each([
    ["an empty entry", `${text},`],
    ["no id", text.slice(6)],
    ["a secret that is too short", "edge-1:c2hvcnQ="],
    ["invalid base64", `edge-1:${"-".repeat(44)}`],
    ["a duplicate id", `${text},${text}`],
  ])("reject %s without revealing the secret", (_title, value) => {
    const read = () => readSettings({ EDGETIER_REGION_KEYS: value });
    expect(read).toThrow(invalidConfiguration("EDGETIER_REGION_KEYS"));
    expect(read).not.toThrow(text.slice(10));
  });
});

describe("model settings", () => {
  it("preload the named models, and all models for *", () => {
    const ref = (model: string, target: object) => ({ model, target });
    expect(readSettings({}).EDGETIER_REGION_PRELOAD).toEqual({ all: false, refs: [] });
    expect(
      readSettings({ EDGETIER_REGION_PRELOAD: "intent, fraud@3" }).EDGETIER_REGION_PRELOAD,
    ).toEqual({
      all: false,
      refs: [
        ref("intent", { kind: "alias", alias: "stable" }),
        ref("fraud", { kind: "version", version: 3 }),
      ],
    });
    expect(
      readSettings({ EDGETIER_REGION_PRELOAD: "*,fraud@3" }).EDGETIER_REGION_PRELOAD,
    ).toMatchObject({
      all: true,
      refs: [{ model: "fraud" }],
    });
  });

  it("set no limits and poll nothing by default", () => {
    expect(readSettings({})).toMatchObject({
      EDGETIER_REGION_MODEL_BUDGET_BYTES: 0,
      EDGETIER_REGION_POLL_MS: 0,
      EDGETIER_REGION_INSTANCES: 1,
      EDGETIER_REGION_ISOLATION: "process",
    });
    expect(readSettings({}).EDGETIER_REGION_MODELS).toBeUndefined();
  });

  it.each([
    [{ EDGETIER_REGION_PRELOAD: "intent,../x" }, /EDGETIER_REGION_PRELOAD.*"\.\.\/x"/],
    [{ EDGETIER_REGION_MODEL_BUDGET_BYTES: "-1" }, "EDGETIER_REGION_MODEL_BUDGET_BYTES"],
    [{ EDGETIER_REGION_ISOLATION: "container" }, "EDGETIER_REGION_ISOLATION"],
    [{ EDGETIER_REGION_INSTANCES: "0" }, "EDGETIER_REGION_INSTANCES"],
  ])("reject %o", (variables, problem) => {
    expect(() => readSettings(variables)).toThrow(invalidConfiguration(problem));
  });
});
