import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { EdgeTierError, reasonOf } from "../../../src/core/errors.ts";
import { createNodeRunner } from "../../../src/toolchain/evaluate/node-runner.ts";
import { importModel } from "../../../src/toolchain/import/import-model.ts";
import { createImportSamples } from "../../../src/toolchain/import/import-samples.ts";
// Child process that passes mutated models through the code of `edgetier model import`, and may crash. Prints a JSON line for
// each model. Arguments: seed, first, count.
import { onnxErrors } from "../../../src/toolchain/onnx/errors.ts";
import { parseModel } from "../../../src/toolchain/onnx/model-file.ts";
import { createModelMutator, MUTANT_SOURCES } from "./mutate-model.ts";

const [seed = 0, first = 0, count = 0] = process.argv.slice(2).map(Number);
const sources = await Promise.all(
  MUTANT_SOURCES.map((name) => readFile(join(import.meta.dirname, "../../fixtures", name))),
);
const createMutant = createModelMutator(seed, sources);
const region = createNodeRunner();

for (let index = first; index < first + count; index++) {
  console.log(JSON.stringify({ index, outcome: await importMutant(createMutant(index)) }));
}

async function importMutant(bytes: Uint8Array): Promise<string> {
  try {
    const model = parseModel(bytes, () => {
      throw onnxErrors.externalDataRejected("", "", "is not looked for");
    });
    const request = {
      model,
      file: "mutant.onnx",
      sha256: "0".repeat(64),
      name: "mutant",
      task: { task: "tensor" },
      place: "region",
      deadlineMs: 1_000,
    } as const;
    const edge = () => Promise.reject(new Error("the edge was asked"));
    await importModel(request, {
      region,
      openEdge: edge,
      sessionBudgetBytes: 80 * 1_048_576,
      loadSamples: createImportSamples(undefined).load,
    });
    return "imported";
  } catch (error) {
    return error instanceof EdgeTierError && error.status < 500
      ? error.code
      : `threw ${reasonOf(error).slice(0, 200)}`;
  }
}
