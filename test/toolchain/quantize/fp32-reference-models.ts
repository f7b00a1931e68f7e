// Loads FP32 reference models and their inputs: intent's region tier and a MobileNet, without their
// rounding to 8 bits.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { NamedTensors } from "../../../src/core/tensor.ts";
import {
  createWordpieceTokenizer,
  tokenizerJsonSchema,
} from "../../../src/tasks/text/wordpiece.ts";
import { dequantize } from "../../../src/toolchain/fp16/dequantize.ts";
import { type Model, parseModel } from "../../../src/toolchain/onnx/model-file.ts";
import { makeSmallMobileNet } from "../../support/reference-models.ts";

const ARTIFACTS = join(import.meta.dirname, "../../../models/intent/artifacts");

function parseAsFp32(bytes: Uint8Array): Model {
  const model = parseModel(bytes);
  dequantize(model);
  return model;
}

export const loadFp32MobileNet = (): Model => parseAsFp32(makeSmallMobileNet());
export const loadFp32Intent = async (): Promise<Model> =>
  parseAsFp32(await readFile(join(ARTIFACTS, "region.onnx")));

export async function encodeIntentInputs(texts: readonly string[]): Promise<NamedTensors[]> {
  const { encodeText } = createWordpieceTokenizer(
    tokenizerJsonSchema.parse(
      JSON.parse(await readFile(join(ARTIFACTS, "tokenizer.json"), "utf8")),
    ),
    64,
  );
  return texts.map((text): NamedTensors => {
    const ids = BigInt64Array.from(encodeText(text), BigInt);
    const shape = [1, ids.length];
    return {
      input_ids: { datatype: "INT64", shape, data: ids },
      attention_mask: { datatype: "INT64", shape, data: ids.map(() => 1n) },
    };
  });
}
