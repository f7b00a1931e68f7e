// Creates inputs of the benchmarks' MobileNetV1: images of noise.
import type { NamedTensors } from "../../../../src/core/tensor.ts";
import { createRandom } from "../random.ts";

const RESOLUTION = 224;

export function createInput(seed: number): NamedTensors {
  const random = createRandom(seed);
  const data = new Float32Array(3 * RESOLUTION ** 2);
  for (let index = 0; index < data.length; index++) data[index] = 2 * random.next() - 1;
  return { pixels: { datatype: "FP32", shape: [1, 3, RESOLUTION, RESOLUTION], data } };
}
