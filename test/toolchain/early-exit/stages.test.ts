// Stages: a graph in two stages gives the whole graph's outputs, exactly in FP32 and closely in 8 bits.
import { describe, expect, it } from "vitest";
import type { NamedTensors } from "../../../src/core/tensor.ts";
import { createNativeRuntime } from "../../../src/runtime/native/native-runtime.ts";
import { chooseActivationQuantization } from "../../../src/toolchain/early-exit/activation-quantization.ts";
import { findCuts } from "../../../src/toolchain/early-exit/find-cuts.ts";
import {
  ACTIVATION,
  type ActivationQuantization,
  buildFeatureGraph,
  buildFirstStage,
  buildSecondStage,
} from "../../../src/toolchain/early-exit/stages.ts";
import type { CutTensor } from "../../../src/toolchain/early-exit/views.ts";
import { type Model, serializeModel } from "../../../src/toolchain/onnx/model-file.ts";
import { generateInputs } from "../../../src/toolchain/passes/verify-outputs.ts";
import { floatTensor, model, node } from "../onnx/model-builders.ts";
import { maskedModel, mirroredViewsModel, residualModel } from "./splittable-models.ts";

const runtime = createNativeRuntime({ intraOpThreads: 1, graphOptimization: "disabled" });

async function run(graph: Uint8Array, values: NamedTensors): Promise<NamedTensors> {
  const session = await runtime.createSession(graph);
  const inputs = Object.fromEntries(
    session.inputs
      .map(({ name }) => [name, values[name]])
      .filter((entry): entry is [string, NamedTensors[string]] => entry[1] !== undefined),
  );
  return await session.run(inputs).finally(() => session.dispose());
}

const int64 = (shape: readonly number[], data: readonly number[]) => ({
  datatype: "INT64" as const,
  shape,
  data: BigInt64Array.from(data, BigInt),
});
const twoTexts: NamedTensors = {
  ids: int64([2, 3], [1, 2, 3, 4, 5, 0]),
  attention_mask: int64([2, 3], [1, 1, 1, 1, 1, 0]),
};
const [images = {}] = generateInputs([{ name: "x", datatype: "FP32", shape: [-1, 3, 8, 8] }]);
const oneText: NamedTensors = { ids: int64([1, 2], [1, 2]), attention_mask: int64([1, 2], [1, 1]) };

const severalImages: NamedTensors = {
  x: {
    datatype: "FP32",
    shape: [3, 3, 8, 8],
    data: Float32Array.from({ length: 576 }, (_, index) => Math.sin(index)),
  },
};

const graphs: readonly (readonly [string, () => Model, NamedTensors, NamedTensors])[] = [
  ["with a residual block", residualModel, images, severalImages],
  ["with a mask", maskedModel, oneText, twoTexts],
  ["with two views", () => mirroredViewsModel("adjacent"), images, severalImages],
  ["with two views in 8 bits", () => mirroredViewsModel("adjacent", true), images, severalImages],
];

const toNumbers = (tensor: NamedTensors[string] | undefined): number[] =>
  tensor === undefined || tensor.datatype === "BYTES" ? [] : Array.from(tensor.data, Number);
const createHead = (width: number, grid: number) => ({
  grid,
  layers: [
    {
      inputs: width,
      outputs: 2,
      weights: new Float32Array(width * 2).fill(0.5),
      bias: Float32Array.of(1, -1),
    },
  ],
});

/** Runs both stages of a graph that is cut at a value, and the features that a head reads there. */
async function runStages(
  createModel: () => Model,
  cut: CutTensor,
  inputs: NamedTensors,
  quantization: ActivationQuantization,
  grid = 1,
) {
  const { graph, outputs } = buildFeatureGraph(createModel(), [cut], grid);
  const features = (await run(graph, inputs))[outputs[0] ?? ""];
  const head = createHead(features?.shape[1] ?? 0, grid);
  const first = await run(buildFirstStage(createModel(), cut, head, quantization), inputs);
  const second = await run(buildSecondStage(createModel(), cut, quantization), {
    ...inputs,
    ...first,
  });
  return { features, first, second };
}

describe.each(graphs)("stages of a graph %s", (_name, createModel, singleRow, multipleRows) => {
  it("give the whole graph's outputs at every cut if the value crosses in FP32", async () => {
    const whole = await run(serializeModel(createModel()), multipleRows);
    const cuts = await findCuts(runtime, createModel(), { singleRow, multipleRows });
    expect(cuts.length).toBeGreaterThan(3);
    for (const cut of cuts) {
      const { first, second } = await runStages(createModel, cut, multipleRows, undefined);
      expect(first[ACTIVATION]).toMatchObject({ datatype: "FP32" });
      expect(second).toEqual(whole);
    }
  });

  it("give nearly the same outputs if the value crosses in 8 bits", async () => {
    const whole = toNumbers((await run(serializeModel(createModel()), singleRow))["logits"]);
    const largest = Math.max(...whole.map(Math.abs));
    const cuts = await findCuts(runtime, createModel(), { singleRow, multipleRows });
    const quantizations = await chooseActivationQuantization(
      runtime,
      createModel(),
      cuts.map(({ value }) => value),
      [singleRow],
    );
    for (const cut of cuts) {
      const quantization = quantizations.get(cut.value);
      const { first, second } = await runStages(createModel, cut, singleRow, quantization);
      expect(first[ACTIVATION]).toMatchObject({ datatype: "UINT8" });
      toNumbers(second["logits"]).forEach((value, index) =>
        expect(Math.abs(value - (whole[index] ?? Number.NaN)) / largest).toBeLessThan(0.05),
      );
    }
  });
});

const stemCut = { value: "stem", shape: [-1, 6, 8, 8], views: 1 };

describe("features of a head", () => {
  it("are the mean and the maximum over an image, from which the head computes logits", async () => {
    const { features, first } = await runStages(residualModel, stemCut, images, undefined);
    const value = toNumbers(first[ACTIVATION]);
    const channels = Array.from({ length: 6 }, (_, channel) =>
      value.slice(channel * 64, channel * 64 + 64),
    );
    const expected = [
      ...channels.map((channel) => channel.reduce((sum, number) => sum + number, 0) / 64),
      ...channels.map((channel) => Math.max(...channel)),
    ];
    expect(toNumbers(features).slice(0, 12)).toEqual(
      expected.map((number) => expect.closeTo(number, 5) as number),
    );
    const half = expected.reduce((sum, number) => sum + number, 0) / 2;
    expect(toNumbers(first["logits"]).slice(0, 2)).toEqual([
      expect.closeTo(half + 1, 4),
      expect.closeTo(half - 1, 4),
    ]);
  });

  it("are means over a grid, whose regions overlap if the sides are not divisible", async () => {
    const { features, first } = await runStages(residualModel, stemCut, images, undefined, 3);
    const value = toNumbers(first[ACTIVATION]);
    const computeRegionMean = (top: number, left: number) =>
      [0, 1, 2, 3]
        .flatMap((y) => [0, 1, 2, 3].map((x) => value[(top + y) * 8 + left + x] ?? Number.NaN))
        .reduce((sum, number) => sum + number, 0) / 16;
    const firstChannel = [0, 2, 4].flatMap((top) =>
      [0, 2, 4].map((left) => computeRegionMean(top, left)),
    );
    expect(features?.shape[1]).toBe(6 * 9 + 6);
    expect(toNumbers(features).slice(0, 9)).toEqual(
      firstChannel.map((number) => expect.closeTo(number, 5) as number),
    );
  });

  it("are the mean over a text's tokens without its padding", async () => {
    const cut = { value: "layer1", shape: [-1, -1, 4], views: 1 };
    const { features } = await runStages(maskedModel, cut, twoTexts, undefined);
    const unpadded = { ids: int64([1, 2], [4, 5]), attention_mask: int64([1, 2], [1, 1]) };
    const { features: expected } = await runStages(maskedModel, cut, unpadded, undefined);
    expect(toNumbers(expected)).toHaveLength(4);
    expect(toNumbers(features).slice(4)).toEqual(
      toNumbers(expected).map((number) => expect.closeTo(number, 6) as number),
    );
  });
});

describe("chooseActivationQuantization", () => {
  it("uses the graph's own parameters for a value in 8 bits, so that nothing is lost", async () => {
    const scale = floatTensor("scale", [0.125], []);
    const zero = { ...floatTensor("zero", [0], []), dataType: 2, rawData: Uint8Array.of(3) };
    const createNet = () =>
      model({
        inputs: ["x: float [N, 2]"],
        outputs: ["logits: float [N, 2]"],
        constants: [scale, zero, floatTensor("w", [1, 2, 3, 4], [2, 2])],
        nodes: [
          node("MatMul x w -> a"),
          node("QuantizeLinear a scale zero -> q"),
          node("DequantizeLinear q scale zero -> d"),
          node("MatMul d w -> logits"),
        ],
      });
    const quantizations = await chooseActivationQuantization(runtime, createNet(), ["a", "d"], []);
    const params = { type: "uint8", scale: 0.125, zeroPoint: 3 };
    expect(Object.fromEntries(quantizations)).toEqual({ a: params, d: params });
    const inputs: NamedTensors = {
      x: { datatype: "FP32", shape: [1, 2], data: Float32Array.of(0.7, 1.3) },
    };
    for (const value of ["a", "d"]) {
      const cut = { value, shape: [-1, 2], views: 1 };
      const { second } = await runStages(createNet, cut, inputs, quantizations.get(value));
      expect(second).toEqual(await run(serializeModel(createNet()), inputs));
    }
  });
});

describe("tensor names of the stages", () => {
  it("are released by values of the graph that have them", async () => {
    const createNet = () =>
      model({
        inputs: ["x: float [N, 2]"],
        outputs: ["y: float [N, 2]"],
        constants: [floatTensor("w", [1, 2, 3, 4], [2, 2])],
        nodes: [
          node("MatMul x w -> logits"),
          node("Relu logits -> activation"),
          node("MatMul activation w -> y"),
        ],
      });
    const inputs: NamedTensors = {
      x: { datatype: "FP32", shape: [1, 2], data: Float32Array.of(-1, 2) },
    };
    const cut = { value: "activation", shape: [-1, 2], views: 1 };
    const { first, second } = await runStages(createNet, cut, inputs, undefined);
    expect(Object.keys(first).toSorted()).toEqual(["activation", "logits"]);
    expect(second).toEqual(await run(serializeModel(createNet()), inputs));
  });

  it("are rejected if an output of the graph has one", () => {
    const net = model({
      inputs: ["x: float [N, 2]"],
      outputs: ["activation: float [N, 2]"],
      constants: [floatTensor("w", [1, 2, 3, 4], [2, 2])],
      nodes: [node("MatMul x w -> a"), node("MatMul a w -> activation")],
    });
    expect(() =>
      buildSecondStage(net, { value: "a", shape: [-1, 2], views: 1 }, undefined),
    ).toThrow(expect.objectContaining({ code: "not_cuttable" }));
  });
});
