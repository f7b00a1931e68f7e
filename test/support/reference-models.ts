// Reference models for tests of snapshots and stripped engines: `intent`'s edge tier and a small convolutional model.
// No imports from Node: suites in workerd use it too.
import features from "../../models/intent/artifacts/edge-features.json" with { type: "json" };
import { generateQueries } from "../../src/cli/load/query-generator.ts";
import type { NamedTensors, TensorSpec } from "../../src/core/tensor.ts";
import { createNgramHasher } from "../../src/tasks/text/hashed-ngrams.ts";
import { createMobileNet } from "../bench/lib/mobilenet.ts";
import { createRandom } from "../bench/lib/random.ts";

/** Image size in pixels; large enough for every layer. */
const SIDE = 32;

export const intentSpecs: readonly TensorSpec[] = [
  { name: "ids", datatype: "INT32", shape: [-1, -1] },
];
export const mobileNetSpecs: readonly TensorSpec[] = [
  { name: "pixels", datatype: "FP32", shape: [-1, 3, SIDE, SIDE] },
];

const { buckets, wordNgrams, charNgrams, maxFeatures } = features;
const idsOf = createNgramHasher({
  kind: "hashed-ngrams",
  buckets,
  wordNgrams,
  charNgrams,
  maxFeatures,
});

export function encodeIntentInput(text: string): NamedTensors {
  const data = idsOf(text);
  return { ids: { datatype: "INT32", shape: [1, data.length], data } };
}

export const intentSampleTexts = generateQueries(1000, 7);

export const makeSmallMobileNet = (): Uint8Array =>
  createMobileNet({ seed: 1, width: 0.25, resolution: SIDE, classes: 10 });

export function randomImageInput(seed: number): NamedTensors {
  const { next } = createRandom(seed);
  return {
    pixels: {
      datatype: "FP32",
      shape: [1, 3, SIDE, SIDE],
      data: Float32Array.from({ length: 3 * SIDE * SIDE }, () => 2 * next() - 1),
    },
  };
}
