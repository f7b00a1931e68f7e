// A graph in two stages gives what the whole gives: exactly with the value in FP32, closely in 8 bits.
import { describe, expect, it } from "vitest";
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
import type { NamedTensors } from "../../../src/core/tensor.ts";
import { createNativeRuntime } from "../../../src/runtime/native/native-runtime.ts";
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
const texts: NamedTensors = {
  ids: int64([2, 3], [1, 2, 3, 4, 5, 0]),
  attention_mask: int64([2, 3], [1, 1, 1, 1, 1, 0]),
};
const [images = {}] = generateInputs([{ name: "x", datatype: "FP32", shape: [-1, 3, 8, 8] }]);
const one: NamedTensors = { ids: int64([1, 2], [1, 2]), attention_mask: int64([1, 2], [1, 1]) };

const severalImages: NamedTensors = {
  x: {
    datatype: "FP32",
    shape: [3, 3, 8, 8],
    data: Float32Array.from({ length: 576 }, (_, index) => Math.sin(index)),
  },
};

const nets: readonly (readonly [string, () => Model, NamedTensors, NamedTensors])[] = [
  ["with a residual block", residualModel, images, severalImages],
  ["with a mask", maskedModel, one, texts],
  ["of an image and its mirror image", () => mirroredViewsModel("adjacent"), images, severalImages],
  ["of both in 8 bits", () => mirroredViewsModel("adjacent", true), images, severalImages],
];

const numbers = (tensor: NamedTensors[string] | undefined): number[] =>
  tensor === undefined || tensor.datatype === "BYTES" ? [] : Array.from(tensor.data, Number);
const headOf = (width: number, grid: number) => ({
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

async function stagesAt(
  net: () => Model,
  place: CutTensor,
  values: NamedTensors,
  crossing: ActivationQuantization,
  grid = 1,
) {
  const { graph, outputs } = buildFeatureGraph(net(), [place], grid);
  const row = (await run(graph, values))[outputs[0] ?? ""];
  const first = await run(
    buildFirstStage(net(), place, headOf(row?.shape[1] ?? 0, grid), crossing),
    values,
  );
  return {
    row,
    first,
    rest: await run(buildSecondStage(net(), place, crossing), { ...values, ...first }),
  };
}

describe.each(nets)("stages of a graph %s", (_what, net, single, several) => {
  it("give the whole's numbers at every cut, where the value crosses in FP32", async () => {
    const whole = await run(serializeModel(net()), several);
    const cuts = await findCuts(runtime, net(), { singleRow: single, multipleRows: several });
    expect(cuts.length).toBeGreaterThan(3);
    for (const place of cuts) {
      const { first, rest } = await stagesAt(net, place, several, undefined);
      expect(first[ACTIVATION]).toMatchObject({ datatype: "FP32" });
      expect(rest).toEqual(whole);
    }
  });

  it("are close to them where it crosses in 8 bits", async () => {
    const whole = numbers((await run(serializeModel(net()), single))["logits"]);
    const largest = Math.max(...whole.map(Math.abs));
    const cuts = await findCuts(runtime, net(), { singleRow: single, multipleRows: several });
    const crossings = await chooseActivationQuantization(
      runtime,
      net(),
      cuts.map(({ value }) => value),
      [single],
    );
    for (const place of cuts) {
      const { first, rest } = await stagesAt(net, place, single, crossings.get(place.value));
      expect(first[ACTIVATION]).toMatchObject({ datatype: "UINT8" });
      numbers(rest["logits"]).forEach((value, index) =>
        expect(Math.abs(value - (whole[index] ?? Number.NaN)) / largest).toBeLessThan(0.05),
      );
    }
  });
});

describe("what a head reads", () => {
  it("is the mean and the maximum over the places of an image, and the head's logits follow", async () => {
    const place = { value: "stem", shape: [-1, 6, 8, 8], views: 1 };
    const { row, first } = await stagesAt(residualModel, place, images, undefined);
    const value = numbers(first[ACTIVATION]);
    const channels = Array.from({ length: 6 }, (_, channel) =>
      value.slice(channel * 64, channel * 64 + 64),
    );
    const expected = [
      ...channels.map((own) => own.reduce((sum, number) => sum + number, 0) / 64),
      ...channels.map((own) => Math.max(...own)),
    ];
    numbers(row)
      .slice(0, 12)
      .forEach((number, index) => expect(number).toBeCloseTo(expected[index] ?? Number.NaN, 5));
    const half = expected.reduce((sum, number) => sum + number, 0) / 2;
    expect(numbers(first["logits"]).slice(0, 2)).toEqual([
      expect.closeTo(half + 1, 4),
      expect.closeTo(half - 1, 4),
    ]);
  });

  it("is the means over a grid of an image's parts, which overlap where its sides do not divide", async () => {
    const place = { value: "stem", shape: [-1, 6, 8, 8], views: 1 };
    const { row, first } = await stagesAt(residualModel, place, images, undefined, 3);
    const value = numbers(first[ACTIVATION]);
    const part = (top: number, left: number) =>
      [0, 1, 2, 3]
        .flatMap((y) => [0, 1, 2, 3].map((x) => value[(top + y) * 8 + left + x] ?? Number.NaN))
        .reduce((sum, number) => sum + number, 0) / 16;
    const firstChannel = [0, 2, 4].flatMap((top) => [0, 2, 4].map((left) => part(top, left)));
    expect(row?.shape[1]).toBe(6 * 9 + 6);
    numbers(row)
      .slice(0, 9)
      .forEach((number, index) => expect(number).toBeCloseTo(firstChannel[index] ?? Number.NaN, 5));
  });

  it("is the mean over a text's tokens without its padding", async () => {
    const place = { value: "layer1", shape: [-1, -1, 4], views: 1 };
    const { row } = await stagesAt(maskedModel, place, texts, undefined);
    const { row: alone } = await stagesAt(
      maskedModel,
      place,
      { ids: int64([1, 2], [4, 5]), attention_mask: int64([1, 2], [1, 1]) },
      undefined,
    );
    numbers(row)
      .slice(4)
      .forEach((number, index) =>
        expect(number).toBeCloseTo(numbers(alone)[index] ?? Number.NaN, 6),
      );
  });
});

describe("crossings", () => {
  it("are the graph's own where it has 8 bits there, so that nothing is lost", async () => {
    const scale = floatTensor("scale", [0.125], []);
    const zero = { ...floatTensor("zero", [0], []), dataType: 2, rawData: Uint8Array.of(3) };
    const net = () =>
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
    const crossings = await chooseActivationQuantization(runtime, net(), ["a", "d"], []);
    const own = { type: "uint8", scale: 0.125, zeroPoint: 3 };
    expect([crossings.get("a"), crossings.get("d")]).toEqual([own, own]);
    const values: NamedTensors = {
      x: { datatype: "FP32", shape: [1, 2], data: Float32Array.of(0.7, 1.3) },
    };
    for (const value of ["a", "d"]) {
      const { rest } = await stagesAt(
        net,
        { value, shape: [-1, 2], views: 1 },
        values,
        crossings.get(value),
      );
      expect(rest).toEqual(await run(serializeModel(net()), values));
    }
  });
});

describe("names", () => {
  it("that the stages need are taken from values that have them", async () => {
    const net = () =>
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
    const values: NamedTensors = {
      x: { datatype: "FP32", shape: [1, 2], data: Float32Array.of(-1, 2) },
    };
    const { first, rest } = await stagesAt(
      net,
      { value: "activation", shape: [-1, 2], views: 1 },
      values,
      undefined,
    );
    expect(Object.keys(first).toSorted()).toEqual(["activation", "logits"]);
    expect(rest).toEqual(await run(serializeModel(net()), values));
  });

  it("are refused where the graph's own output has one", () => {
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
