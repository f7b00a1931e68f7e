// Image models in a region: image files as BYTES elements in, logits out.
import { beforeAll, describe, expect, it } from "vitest";
import { createInProcessRegionClient } from "../../src/region/drivers/in-process.ts";
import { publishColorModel } from "../support/color-model.ts";
import { sampleImage } from "../support/sample-images.ts";
import { createRegionFixture, type RegionFixture } from "./region-fixture.ts";

const RED = sampleImage("jpeg, red").file;
const BLUE = sampleImage("png, blue").file;

let region: RegionFixture;
beforeAll(async () => {
  region = createRegionFixture();
  await publishColorModel(region.store, { deadlineMs: 10_000 });
});

const infer = async (...inputs: readonly Uint8Array[]) =>
  await createInProcessRegionClient(region.app.fetch).infer({
    model: "colours",
    version: 1,
    tier: "region",
    inputs,
    requestId: "r",
    timeoutMs: 10_000,
  });

describe("images in a region", () => {
  it("are decoded into one row each", async () => {
    const { logits } = await infer(RED, BLUE, RED);
    expect(logits?.shape).toEqual([3, 3]);
    const scores =
      logits?.datatype === "FP32"
        ? [0, 1, 2].map((row) => logits.data.subarray(row * 3, row * 3 + 3))
        : [];
    expect(scores.map((row) => row.indexOf(Math.max(...row)))).toEqual([0, 2, 0]);
    expect(scores[2]).toEqual(scores[0]);
  });

  it("are rejected with the status of the fault, and the next request is answered", async () => {
    await expect(infer(RED, BLUE.slice(0, 60))).rejects.toMatchObject({
      code: "region_refused",
      detail: expect.stringMatching(/\b400\b.*\b1\b/),
    });
    await expect(infer(new TextEncoder().encode("GIF89a"))).rejects.toMatchObject({
      code: "region_refused",
      detail: expect.stringMatching(/\b415\b.*GIF/),
    });
    expect((await infer(RED)).logits?.shape).toEqual([1, 3]);
  });
});
