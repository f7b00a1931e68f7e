// Suite: a graph in two stages on the whole system. The Worker's stripped engine runs the first stage from its snapshot, a region
// process runs the rest, and the bytes between them are counted.
import { expect, it } from "vitest";
import { predictResponseSchema } from "../../../src/protocol/predict.ts";
import { sampleImage } from "../../support/sample-images.ts";
import { system } from "./shared-system.ts";

const RED = sampleImage("jpeg, red").file;
const GRAY = sampleImage("jpeg, grey").file;

async function predict(model: string, file: Uint8Array<ArrayBuffer>, maxTier?: string) {
  const before = system.proxy.bytesSent;
  const query = maxTier === undefined ? "" : `&maxTier=${maxTier}`;
  const response = await fetch(
    `${system.urls.edge}/v1/models/${model}/predict?cache=bypass${query}`,
    { method: "POST", headers: { "content-type": "image/jpeg" }, body: file },
  );
  const text = await response.text();
  expect(response.status, text).toBe(200);
  return {
    ...predictResponseSchema.parse(JSON.parse(text)),
    bytesSent: system.proxy.bytesSent - before,
  };
}

async function readRunCount(model: string): Promise<number> {
  const page = await (await fetch(`${system.urls.region}/metrics`)).text();
  const lines = page
    .split("\n")
    .filter(
      (line) =>
        line.startsWith("edgetier_region_batch_rows_count") &&
        line.includes(`model="${model}"`) &&
        line.includes('tier="region/edge"'),
    );
  return lines.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
}

it("a sure answer is the exit head's, and nothing is sent", async () => {
  const { outputs, bytesSent } = await predict("staged", RED);
  expect(outputs[0]).toMatchObject({ label: "red", tier: "edge", degraded: false });
  expect(bytesSent).toBe(0);
});

it("an unsure one is answered from the activation, with fewer bytes than the file takes, and as the whole graph answers", async () => {
  const staged = await predict("staged", GRAY);
  const whole = await predict("colours", GRAY);
  expect(staged.outputs[0]).toMatchObject({ tier: "region", degraded: false });
  expect(staged.outputs[0]?.confidence).toBeCloseTo(whole.outputs[0]?.confidence ?? Number.NaN, 1);
  expect(whole.bytesSent - staged.bytesSent).toBeGreaterThan(GRAY.byteLength / 2);
  expect(await readRunCount("staged")).toBe(1);
});

it("the edge's answer alone sends nothing", async () => {
  const { outputs, bytesSent } = await predict("staged", GRAY, "edge");
  expect(outputs[0]).toMatchObject({ tier: "edge" });
  expect(bytesSent).toBe(0);
});
