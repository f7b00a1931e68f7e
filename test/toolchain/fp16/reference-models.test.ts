// Tests FP16 on real models: intent's region tier with real texts, and a convolutional network.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { expectFloat32Tensor, type NamedTensors } from "../../../src/core/tensor.ts";
import { createNativeRuntime } from "../../../src/runtime/native/native-runtime.ts";
import {
  createWordpieceTokenizer,
  tokenizerJsonSchema,
} from "../../../src/tasks/text/wordpiece.ts";
import { compareModels } from "../../../src/toolchain/fp16/compare-models.ts";
import { convertToFp16 } from "../../../src/toolchain/fp16/convert-to-fp16.ts";
import { dequantize } from "../../../src/toolchain/fp16/dequantize.ts";
import { emulateFp16Rounding } from "../../../src/toolchain/fp16/emulate-rounding.ts";
import { parseModel, serializeModel } from "../../../src/toolchain/onnx/model-file.ts";
import {
  randomImageInput,
  intentSampleTexts,
  makeSmallMobileNet,
} from "../../support/reference-models.ts";

const ARTIFACTS = join(import.meta.dirname, "../../../models/intent/artifacts");
const runtime = createNativeRuntime({ intraOpThreads: 1 });
const readIntent = () => readFile(join(ARTIFACTS, "region.onnx"));

function convertBytes(
  bytes: Uint8Array,
  prepare: (model: ReturnType<typeof parseModel>) => unknown = () => undefined,
) {
  const model = parseModel(bytes);
  prepare(model);
  const before = serializeModel(model);
  return { before, report: convertToFp16(model), after: serializeModel(model) };
}

async function intentInputs(): Promise<NamedTensors[]> {
  const { encodeText } = createWordpieceTokenizer(
    tokenizerJsonSchema.parse(
      JSON.parse(await readFile(join(ARTIFACTS, "tokenizer.json"), "utf8")),
    ),
    64,
  );
  return intentSampleTexts.slice(0, 20).map((query): NamedTensors => {
    const ids = BigInt64Array.from(encodeText(query), BigInt);
    const shape = [1, ids.length];
    return {
      input_ids: { datatype: "INT64", shape, data: ids },
      attention_mask: { datatype: "INT64", shape, data: ids.map(() => 1n) },
    };
  });
}

/** Returns the largest difference of logits, and the number of inputs with another argmax. */
async function measureDifferences(
  before: Uint8Array,
  after: Uint8Array,
  inputs: readonly NamedTensors[],
) {
  const [original, rounded] = [
    await runtime.createSession(before),
    await runtime.createSession(emulateFp16Rounding(after)),
  ];
  let [largest, otherClasses] = [0, 0];
  for (const input of inputs) {
    const [expected, found] = [
      expectFloat32Tensor("logits", (await original.run(input))["logits"], 2).data,
      expectFloat32Tensor("logits", (await rounded.run(input))["logits"], 2).data,
    ];
    largest = Math.max(
      largest,
      ...expected.map((logit, index) => Math.abs(logit - (found[index] ?? Number.NaN))),
    );
    if (expected.indexOf(Math.max(...expected)) !== found.indexOf(Math.max(...found)))
      otherClasses++;
  }
  await Promise.all([original.dispose(), rounded.dispose()]);
  return { largest, otherClasses };
}

describe("intent's region tier, logits up to 17", () => {
  it("converts to FP16 around its INT8, with few additional rounding differences", async () => {
    const { before, report, after } = convertBytes(await readIntent());
    expect(report).toEqual({ kept: [], casts: 1, rounded: [] });
    const { largest, otherClasses } = await measureDifferences(before, after, await intentInputs());
    expect(otherClasses).toBe(0);
    expect(largest).toBeLessThan(1);
  });

  it("changes much less in FP16 if it is dequantized first", async () => {
    const { before, report, after } = convertBytes(await readIntent(), dequantize);
    expect(report).toMatchObject({ kept: [], rounded: [] });
    const sizeRatio = after.byteLength / before.byteLength;
    expect(sizeRatio).toBeGreaterThan(0.5);
    expect(sizeRatio).toBeLessThan(0.56);
    const inputs = await intentInputs();
    expect((await measureDifferences(before, after, inputs)).largest).toBeLessThan(0.04);
    expect((await measureDifferences(await readIntent(), after, inputs)).otherClasses).toBe(0);
  });
});

describe("a MobileNet of INT8, logits up to 9", () => {
  it("gets FP16 only between its INT8 operators", async () => {
    const { before, report, after } = convertBytes(makeSmallMobileNet());
    expect(new Set(report.kept.map(({ op }) => op))).toEqual(
      new Set(["QuantizeLinear", "QLinearConv", "DequantizeLinear", "QLinearMatMul"]),
    );
    expect(
      (
        await measureDifferences(
          before,
          after,
          Array.from({ length: 10 }, (_, seed) => randomImageInput(seed)),
        )
      ).largest,
    ).toBeLessThan(0.3);
  });

  it("becomes FP16 throughout if it is dequantized first", async () => {
    const { before, report, after } = convertBytes(makeSmallMobileNet(), dequantize);
    expect(report).toMatchObject({ kept: [], casts: 2 });
    const { rounds, outputs } = await compareModels(runtime, before, after);
    expect(rounds).toBe(true);
    expect(outputs).toEqual([expect.objectContaining({ output: "logits", lost: 0 })]);
    // Random weights of 28 layers amplify every rounding.
    expect(outputs[0]?.maxAbsolute).toBeLessThan(0.5);
  });
});
