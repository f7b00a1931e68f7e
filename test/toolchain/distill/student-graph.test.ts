// Graphs of students, compared with the values of the training code.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { NamedTensors } from "../../../src/core/tensor.ts";
import { createNativeRuntime } from "../../../src/runtime/native/native-runtime.ts";
import {
  findActivationRanges,
  quantizeStudent,
} from "../../../src/toolchain/distill/int8-student.ts";
import {
  buildEmbeddingBagGraph,
  layerInputNames,
  buildTabularGraph,
} from "../../../src/toolchain/distill/student-graph.ts";
import { serializeModel } from "../../../src/toolchain/onnx/model-file.ts";
import { seededRandom } from "../../../src/toolchain/seeded-random.ts";
import { forwardLayers, initDenseLayers } from "../../../src/toolchain/train/dense-layers.ts";
import {
  packBags,
  createEmbeddingBag,
  randomEmbeddings,
} from "../../../src/toolchain/train/embedding-bag.ts";
import { standardize, fitStandardization } from "../../../src/toolchain/train/standardize.ts";
import { propertyRuns } from "../../support/property-runs.ts";

const runtime = createNativeRuntime({ intraOpThreads: 1 });
const [ROWS, WIDTH] = [512, 4];

async function runGraph(
  graph: Uint8Array,
  inputs: NamedTensors,
  name: string,
): Promise<Float32Array> {
  const session = await runtime.createSession(graph);
  const output = (await session.run(inputs))[name];
  await session.dispose();
  if (output?.datatype !== "FP32") throw new TypeError(`${name} is not FP32`);
  return output.data;
}

const idsTensor = (
  samples: readonly Int32Array[],
  width = Math.max(...samples.map(({ length }) => length)),
): NamedTensors => {
  const data = new Int32Array(samples.length * width);
  samples.forEach((ids, sample) => data.set(ids, sample * width));
  return { ids: { datatype: "INT32", shape: [samples.length, width], data } };
};

function createTextStudentParts(hidden: readonly number[]) {
  const random = seededRandom(5);
  const table = randomEmbeddings(ROWS, WIDTH, 0.5, random);
  return { table, layers: initDenseLayers([WIDTH, ...hidden, 3], random) };
}

describe("buildEmbeddingBagGraph", () => {
  it("computes the values of training, regardless of padding", async () => {
    const { table, layers } = createTextStudentParts([7]);
    const graph = serializeModel(buildEmbeddingBagGraph(table, WIDTH, layers, "logits"));
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc
            .array(fc.integer({ min: 1, max: ROWS - 1 }), { maxLength: 12 })
            .map((ids) => Int32Array.from(ids)),
          { minLength: 1, maxLength: 5 },
        ),
        fc.integer({ min: 13, max: 20 }),
        async (samples, width) => {
          const rows = new Float32Array(samples.length * WIDTH);
          createEmbeddingBag(packBags(samples), table, WIDTH).forward(
            Uint32Array.from(samples.keys()),
            rows,
            Math.random,
          );
          const expected = forwardLayers(layers, rows);
          const logits = await runGraph(graph, idsTensor(samples, width), "logits");
          expect(logits.length).toBe(expected.length);
          logits.forEach((value, index) =>
            expect(value).toBeCloseTo(expected[index] ?? Number.NaN, 3),
          );
        },
      ),
      { numRuns: propertyRuns(20) },
    );
  });

  it.each([[[]], [[7]], [[7, 5]]])(
    "can be quantized entirely, both table and layers, with hidden layers %j",
    async (hidden) => {
      const { table, layers } = createTextStudentParts(hidden);
      const model = buildEmbeddingBagGraph(table, WIDTH, layers, "logits");
      const random = seededRandom(9);
      const samples = Array.from({ length: 64 }, () =>
        idsTensor([Int32Array.from({ length: 8 }, () => 1 + Math.floor(random() * (ROWS - 1)))]),
      );
      const ranges = await findActivationRanges(runtime, model, samples);
      expect([...ranges.keys()]).toEqual(layerInputNames(layers));
      const [fp32, int8] = [serializeModel(model), quantizeStudent(model, ranges)];
      expect(int8.byteLength).toBeLessThan(fp32.byteLength);
      const errors: number[] = [];
      for (const inputs of samples) {
        const expected = await runGraph(fp32, inputs, "logits");
        const logits = await runGraph(int8, inputs, "logits");
        errors.push(...logits.map((value, index) => Math.abs(value - (expected[index] ?? 0))));
      }
      expect(errors.reduce((sum, error) => sum + error, 0) / errors.length).toBeLessThan(0.02);
    },
  );
});

describe("buildTabularGraph", () => {
  it("standardizes its rows, with the given names of input and output", async () => {
    const random = seededRandom(1);
    const rows = Float32Array.from(
      { length: 20 * 3 },
      (_, index) => random() * 10 ** (2 * (index % 3)),
    );
    const standardization = fitStandardization(rows, 3);
    const layers = initDenseLayers([3, 5, 2], random);
    const outputs = await runGraph(
      serializeModel(buildTabularGraph(standardization, layers, "x", "y")),
      { x: { datatype: "FP32", shape: [20, 3], data: rows } },
      "y",
    );
    const expected = forwardLayers(layers, standardize(rows, standardization));
    outputs.forEach((value, index) => expect(value).toBeCloseTo(expected[index] ?? Number.NaN, 4));
    expect(outputs.length).toBe(40);
  });
});
