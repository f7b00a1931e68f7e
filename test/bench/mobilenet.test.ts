// Tests a small MobileNet of the benchmarks in ONNX Runtime.
import { afterAll, beforeAll, expect, it } from "vitest";
import { expectFloat32Tensor, type TensorOf } from "../../src/core/tensor.ts";
import { createNativeRuntime } from "../../src/runtime/native/native-runtime.ts";
import type { Session } from "../../src/runtime/runtime.ts";
import { createMobileNet } from "./lib/mobilenet.ts";
import { createRandom } from "./lib/random.ts";

const OPTIONS = { seed: 1, width: 0.25, resolution: 96, classes: 10 };
const PIXELS = 3 * OPTIONS.resolution ** 2;

let session: Session;
beforeAll(async () => {
  session = await createNativeRuntime({ intraOpThreads: 1 }).createSession(
    createMobileNet(OPTIONS),
  );
});
afterAll(async () => await session.dispose());

function randomImages(count: number): TensorOf<"FP32"> {
  const random = createRandom(2);
  const data = Float32Array.from({ length: count * PIXELS }, () => 2 * random.next() - 1);
  return { datatype: "FP32", shape: [count, 3, OPTIONS.resolution, OPTIONS.resolution], data };
}

async function logitsOf(pixels: TensorOf<"FP32">): Promise<number[][]> {
  const { shape, data } = expectFloat32Tensor(
    "logits",
    (await session.run({ pixels }))["logits"],
    2,
  );
  expect(shape).toEqual([pixels.shape[0], OPTIONS.classes]);
  return Array.from({ length: shape[0] ?? 0 }, (_, row) => [
    ...data.subarray(row * OPTIONS.classes, (row + 1) * OPTIONS.classes),
  ]);
}

it("declares images of a variable batch, and logits", () => {
  expect(session.inputs).toEqual([{ name: "pixels", datatype: "FP32", shape: [-1, 3, 96, 96] }]);
  expect(session.outputs).toEqual([{ name: "logits", datatype: "FP32", shape: [-1, 10] }]);
});

it("has other logits for other images, and the same ones alone as in a batch", async () => {
  const images = randomImages(3);
  const together = await logitsOf(images);
  for (const [row, logits] of together.entries()) {
    const pixels = {
      ...images,
      shape: [1, ...images.shape.slice(1)],
      data: images.data.subarray(row * PIXELS, (row + 1) * PIXELS),
    };
    expect(await logitsOf(pixels)).toEqual([logits]);
  }
  const [first = [], second = []] = together;
  expect(first.filter((logit, index) => logit !== second[index]).length).toBeGreaterThanOrEqual(
    0.3 * OPTIONS.classes,
  );
  expect(new Set(first).size).toBeGreaterThan(OPTIONS.classes / 2);
});

it("is the same bytes for the same options, and others for another seed", () => {
  const model = Buffer.from(createMobileNet(OPTIONS));
  expect(model.equals(createMobileNet(OPTIONS))).toBe(true);
  expect(model.equals(createMobileNet({ ...OPTIONS, seed: 2 }))).toBe(false);
});
