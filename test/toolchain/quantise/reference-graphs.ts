// FP32 graphs of real size, and inputs for them: `intent`'s region tier and a MobileNet without their rounding to 8 bits.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { dequantise } from "../../../src/toolchain/fp16/dequantise.ts";
import { type Model, readModel } from "../../../src/toolchain/onnx/model-file.ts";
import type { NamedTensors } from "../../../src/core/tensor.ts";
import { createWordpiece, wordpieceSchema } from "../../../src/tasks/text/wordpiece.ts";
import { makeSmallMobileNet } from "../../support/reference-models.ts";

const ARTIFACTS = join(import.meta.dirname, "../../../models/intent/artifacts");

function inFp32(bytes: Uint8Array): Model {
  const model = readModel(bytes);
  dequantise(model);
  return model;
}

export const mobileNetInFp32 = (): Model => inFp32(makeSmallMobileNet());
export const intentInFp32 = async (): Promise<Model> =>
  inFp32(await readFile(join(ARTIFACTS, "region.onnx")));

export async function intentInputs(texts: readonly string[]): Promise<NamedTensors[]> {
  const { ofText: idsOf } = createWordpiece(
    wordpieceSchema.parse(JSON.parse(await readFile(join(ARTIFACTS, "tokenizer.json"), "utf8"))),
    64,
  );
  return texts.map((text): NamedTensors => {
    const ids = BigInt64Array.from(idsOf(text), BigInt);
    const shape = [1, ids.length];
    return {
      input_ids: { datatype: "INT64", shape, data: ids },
      attention_mask: { datatype: "INT64", shape, data: ids.map(() => 1n) },
    };
  });
}
