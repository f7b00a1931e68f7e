// The region's settings of dynamic batching; process.test.ts has the others.
import { describe, expect, it } from "vitest";
import { readRegionSettings } from "../../functions/region/settings.ts";

const s3 = { EDGETIER_S3_ENDPOINT: "http://127.0.0.1:1", EDGETIER_S3_BUCKET: "b", EDGETIER_S3_ACCESS_KEY_ID: "k", EDGETIER_S3_SECRET_ACCESS_KEY: "s" };
const read = (variables: object) => readRegionSettings({ ...s3, ...variables });

describe("settings of batching", () => {
  it("are a working service by themselves", () => {
    expect(read({})).toMatchObject({ EDGETIER_REGION_BATCHING: "fixed", EDGETIER_REGION_MAX_BATCH_ROWS: 32, EDGETIER_REGION_MAX_QUEUE_DELAY_US: 0, EDGETIER_REGION_PREFERRED_BATCH_ROWS: [] });
  });

  it("take sizes with commas between them", () => {
    expect(read({ EDGETIER_REGION_PREFERRED_BATCH_ROWS: "4, 8,16" }).EDGETIER_REGION_PREFERRED_BATCH_ROWS).toEqual([4, 8, 16]);
  });

  it.each([
    [{ EDGETIER_REGION_BATCHING: "on" }, "EDGETIER_REGION_BATCHING"],
    [{ EDGETIER_REGION_PREFERRED_BATCH_ROWS: "4,0" }, "EDGETIER_REGION_PREFERRED_BATCH_ROWS: must be whole numbers from 1"],
    [{ EDGETIER_REGION_PREFERRED_BATCH_ROWS: "4,,8" }, "EDGETIER_REGION_PREFERRED_BATCH_ROWS: must be whole numbers from 1"],
    [{ EDGETIER_REGION_PREFERRED_BATCH_ROWS: "8,64", EDGETIER_REGION_MAX_BATCH_ROWS: "16" }, "EDGETIER_REGION_PREFERRED_BATCH_ROWS: 64 cannot be reached with EDGETIER_REGION_MAX_BATCH_ROWS=16"],
  ])("%o is refused", (variables, message) => {
    expect(() => read(variables)).toThrow(message);
  });
});
