// FP16 of real models: that of `intent`'s region tier, on real texts, and a convolutional one.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { compareModels } from "../../../src/toolchain/fp16/compare-models.ts";
import { convertToFp16 } from "../../../src/toolchain/fp16/convert-to-fp16.ts";
import { dequantize } from "../../../src/toolchain/fp16/dequantize.ts";
import { emulateFp16Rounding } from "../../../src/toolchain/fp16/emulate-rounding.ts";
import { parseModel, serializeModel } from "../../../src/toolchain/onnx/model-file.ts";
import { expectFloat32Tensor, type NamedTensors } from "../../../src/core/tensor.ts";
import { createNativeRuntime } from "../../../src/runtime/native/native-runtime.ts";
import {
  createWordpieceTokenizer,
  tokenizerJsonSchema,
} from "../../../src/tasks/text/wordpiece.ts";
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
  first: (model: ReturnType<typeof parseModel>) => unknown = () => undefined,
) {
  const model = parseModel(bytes);
  first(model);
  const before = serializeModel(model);
  return { before, report: convertToFp16(model), after: serializeModel(model) };
}

async function intentInputs(): Promise<NamedTensors[]> {
  const { encodeText: idsOf } = createWordpieceTokenizer(
    tokenizerJsonSchema.parse(
      JSON.parse(await readFile(join(ARTIFACTS, "tokenizer.json"), "utf8")),
    ),
    64,
  );
  return intentSampleTexts.slice(0, 20).map((query): NamedTensors => {
    const ids = BigInt64Array.from(idsOf(query), BigInt);
    const shape = [1, ids.length];
    return {
      input_ids: { datatype: "INT64", shape, data: ids },
      attention_mask: { datatype: "INT64", shape, data: ids.map(() => 1n) },
    };
  });
}

/** The largest difference of logits, and in how many of the inputs another class is the likeliest. */
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
  for (const one of inputs) {
    const [expected, found] = [
      expectFloat32Tensor("logits", (await original.run(one))["logits"], 2).data,
      expectFloat32Tensor("logits", (await rounded.run(one))["logits"], 2).data,
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
  it("in FP16 around its INT8: another rounding to 8 bits here and there", async () => {
    const { before, report, after } = convertBytes(await readIntent());
    expect(report).toEqual({ kept: [], casts: 1, rounded: [] });
    const { largest, otherClasses } = await measureDifferences(before, after, await intentInputs());
    expect(otherClasses).toBe(0);
    expect(largest).toBeLessThan(1);
  });

  it("dequantised and in FP16: what FP16 alone changes is much less", async () => {
    const { before, report, after } = convertBytes(await readIntent(), dequantize);
    expect([report.kept, report.rounded, after.byteLength / before.byteLength]).toEqual([
      [],
      [],
      expect.closeTo(0.53, 1),
    ]);
    const inputs = await intentInputs();
    expect((await measureDifferences(before, after, inputs)).largest).toBeLessThan(0.04);
    expect((await measureDifferences(await readIntent(), after, inputs)).otherClasses).toBe(0);
  });
});

describe("a MobileNet of INT8, logits up to 9", () => {
  it("has FP16 between its INT8 operators only", async () => {
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

  it("is FP16 throughout when it is dequantised first", async () => {
    const { before, report, after } = convertBytes(makeSmallMobileNet(), dequantize);
    expect([report.kept, report.casts]).toEqual([[], 2]);
    const { rounds, outputs } = await compareModels(runtime, before, after);
    expect(rounds).toBe(true);
    expect(outputs).toEqual([expect.objectContaining({ output: "logits", lost: 0 })]);
    expect(outputs[0]?.maxAbsolute).toBeLessThan(0.5); // random weights of 28 layers enlarge every rounding
  });
});
