// The region's settings; process.test.ts has those of the store.
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

describe("settings of batching", () => {
  it("are a working service by themselves", () => {
    expect(readSettings({})).toMatchObject({
      EDGETIER_REGION_BATCHING: "fixed",
      EDGETIER_REGION_MAX_BATCH_ROWS: 32,
      EDGETIER_REGION_MAX_QUEUE_DELAY_US: 0,
      EDGETIER_REGION_PREFERRED_BATCH_ROWS: [],
    });
  });

  it("take sizes with commas between them", () => {
    expect(
      readSettings({ EDGETIER_REGION_PREFERRED_BATCH_ROWS: "4, 8,16" })
        .EDGETIER_REGION_PREFERRED_BATCH_ROWS,
    ).toEqual([4, 8, 16]);
  });

  it.each([
    [{ EDGETIER_REGION_BATCHING: "on" }, "EDGETIER_REGION_BATCHING"],
    [
      { EDGETIER_REGION_PREFERRED_BATCH_ROWS: "4,0" },
      "EDGETIER_REGION_PREFERRED_BATCH_ROWS: must be whole numbers from 1",
    ],
    [
      { EDGETIER_REGION_PREFERRED_BATCH_ROWS: "4,,8" },
      "EDGETIER_REGION_PREFERRED_BATCH_ROWS: must be whole numbers from 1",
    ],
    [
      { EDGETIER_REGION_PREFERRED_BATCH_ROWS: "8,64", EDGETIER_REGION_MAX_BATCH_ROWS: "16" },
      "EDGETIER_REGION_PREFERRED_BATCH_ROWS: 64 cannot be reached with EDGETIER_REGION_MAX_BATCH_ROWS=16",
    ],
  ])("%o is refused", (variables, message) => {
    expect(() => readSettings(variables)).toThrow(message);
  });
});

describe("settings of trust", () => {
  it("take public keys, and never a part of them", () => {
    const key = Buffer.alloc(32, 7).toString("base64");
    expect(readSettings({}).EDGETIER_TRUSTED_KEYS).toBeUndefined();
    expect(readSettings({ EDGETIER_TRUSTED_KEYS: key }).EDGETIER_TRUSTED_KEYS).toHaveLength(1);
    expect(() => readSettings({ EDGETIER_TRUSTED_KEYS: `${key},` })).toThrow(
      "EDGETIER_TRUSTED_KEYS",
    );
  });
});

describe("settings of who may ask", () => {
  const text = formatRegionKey(generateRegionKey("edge-1"));

  it("take keys, and answer everyone without any", () => {
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
    ["a part of one", `${text},`],
    ["no id", text.slice(6)],
    ["a secret that is short", "edge-1:c2hvcnQ="],
    ["no base64", `edge-1:${"-".repeat(44)}`],
    ["an id twice", `${text},${text}`],
  ])("refuse %s, and show no secret", (_what, value) => {
    const reading = () => readSettings({ EDGETIER_REGION_KEYS: value });
    expect(reading).toThrow("EDGETIER_REGION_KEYS");
    expect(reading).not.toThrow(text.slice(10));
  });
});

describe("settings of models", () => {
  it("preload what is named, and all for a star", () => {
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

  it("set no limit and ask for nothing by themselves", () => {
    expect(readSettings({})).toMatchObject({
      EDGETIER_REGION_MODEL_BUDGET_BYTES: 0,
      EDGETIER_REGION_POLL_MS: 0,
      EDGETIER_REGION_INSTANCES: 1,
      EDGETIER_REGION_ISOLATION: "process",
    });
    expect(readSettings({}).EDGETIER_REGION_MODELS).toBeUndefined();
  });

  it.each([
    [{ EDGETIER_REGION_PRELOAD: "intent,../x" }, 'EDGETIER_REGION_PRELOAD: "../x"'],
    [{ EDGETIER_REGION_MODEL_BUDGET_BYTES: "-1" }, "EDGETIER_REGION_MODEL_BUDGET_BYTES"],
    [{ EDGETIER_REGION_ISOLATION: "container" }, "EDGETIER_REGION_ISOLATION"],
    [{ EDGETIER_REGION_INSTANCES: "0" }, "EDGETIER_REGION_INSTANCES"],
  ])("%o is refused", (variables, message) => {
    expect(() => readSettings(variables)).toThrow(message);
  });
});
