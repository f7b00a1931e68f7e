// Images through the whole system: the Worker as it is deployed, with the decoders in its bundle, and a region process.
import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { PROJECT_ROOT } from "../../../src/cli/local/paths.ts";
import { predictResponseSchema } from "../../../src/protocol/predict.ts";
import { sampleImage } from "../../support/sample-images.ts";
import { system } from "./shared-system.ts";

async function predict(file: Uint8Array<ArrayBuffer>, mediaType: string) {
  const response = await fetch(`${system.urls.edge}/v1/models/colours/predict?cache=bypass`, {
    method: "POST",
    headers: { "content-type": mediaType },
    body: file,
  });
  const text = await response.text();
  expect(response.status, text).toBe(200);
  return predictResponseSchema.parse(JSON.parse(text));
}

it("a sure one is answered at the edge", async () => {
  for (const [file, mediaType, label] of [
    [sampleImage("jpeg, red").file, "image/jpeg", "red"],
    [sampleImage("png, blue").file, "image/png", "blue"],
  ] as const) {
    const { outputs, usage } = await predict(file, mediaType);
    expect(outputs[0]).toMatchObject({ label, tier: "edge", degraded: false });
    expect(usage.tiers).toEqual([{ tier: "edge", inputs: 1 }]);
  }
});

it("an unsure one by the region, which makes the same of it", async () => {
  const { outputs, usage } = await predict(sampleImage("jpeg, grey").file, "image/jpeg");
  expect(outputs[0]).toMatchObject({ tier: "region", degraded: false });
  expect(outputs[0]?.confidence).toBeCloseTo(1 / 3, 3);
  expect(usage.tiers).toEqual([
    { tier: "edge", inputs: 1 },
    { tier: "region", inputs: 1 },
  ]);
});

it("one from a file, on the command line", async () => {
  const folder = await mkdtemp(join(tmpdir(), "edgetier-images-"));
  try {
    await writeFile(join(folder, "photo.jpg"), sampleImage("jpeg, red").file);
    const { stdout } = await promisify(execFile)(process.execPath, [
      join(PROJECT_ROOT, "src/cli/edgetier.ts"),
      "predict",
      "--model",
      "colours",
      "--file",
      join(folder, "photo.jpg"),
      "--url",
      system.urls.edge,
      "--json",
    ]);
    expect(JSON.parse(stdout)).toMatchObject({ label: "red", tier: "edge" });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});
