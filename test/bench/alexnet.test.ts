// The benchmarks' model with the large weights, small, in ONNX Runtime itself.
import { afterAll, beforeAll, expect, it } from "vitest";
import { expectFloat32Tensor, type TensorOf } from "../../src/core/tensor.ts";
import { createNativeRuntime } from "../../src/runtime/native/native-runtime.ts";
import type { Session } from "../../src/runtime/runtime.ts";
import { createAlexNet } from "./lib/alexnet.ts";
import { createRandom } from "./lib/random.ts";

const OPTIONS = { seed: 1, width: 0.125, hidden: 64, resolution: 64, classes: 10 };
const PIXELS = 3 * OPTIONS.resolution ** 2;

let session: Session;
beforeAll(async () => {
  session = await createNativeRuntime({ intraOpThreads: 1 }).createSession(createAlexNet(OPTIONS));
});
afterAll(async () => await session.dispose());

async function logitsOf(data: Float32Array): Promise<number[]> {
  const pixels: TensorOf<"FP32"> = {
    datatype: "FP32",
    shape: [data.length / PIXELS, 3, OPTIONS.resolution, OPTIONS.resolution],
    data,
  };
  return [...expectFloat32Tensor("logits", (await session.run({ pixels }))["logits"], 2).data];
}

it("declares images of a variable batch, and logits", () => {
  expect(session.inputs).toEqual([{ name: "pixels", datatype: "FP32", shape: [-1, 3, 64, 64] }]);
  expect(session.outputs).toEqual([{ name: "logits", datatype: "FP32", shape: [-1, 10] }]);
});

it("has other logits for other images, of a size as at any depth, and nearly the same ones alone as in a batch", async () => {
  const random = createRandom(2);
  const images = Float32Array.from({ length: 2 * PIXELS }, () => 2 * random.next() - 1);
  const together = await logitsOf(images);
  const alone = [
    ...(await logitsOf(images.slice(0, PIXELS))),
    ...(await logitsOf(images.slice(PIXELS))),
  ];
  expect(
    Math.max(...together.map((logit, index) => Math.abs(logit - (alone[index] ?? Number.NaN)))),
  ).toBeLessThan(1e-4);
  expect(together.slice(0, 10)).not.toEqual(together.slice(10));
  const size = Math.hypot(...together) / Math.sqrt(together.length);
  expect(size).toBeGreaterThan(0.1);
  expect(size).toBeLessThan(10);
});

it("is the same bytes for the same options, and others for another seed", () => {
  const model = Buffer.from(createAlexNet(OPTIONS));
  expect(model.equals(createAlexNet(OPTIONS))).toBe(true);
  expect(model.equals(createAlexNet({ ...OPTIONS, seed: 2 }))).toBe(false);
});
