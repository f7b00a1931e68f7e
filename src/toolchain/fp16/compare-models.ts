// Compares the outputs of a converted graph with those of the original, on the same seeded inputs.
// Every result is rounded to FP16, as on a GPU.

import { reasonOf } from "../../core/errors.ts";
import type { NamedTensors, Tensor, TensorSpec } from "../../core/tensor.ts";
import type { Runtime, Session } from "../../runtime/runtime.ts";
import { createWarmUpInputs } from "../engine/synthetic-inputs.ts";
import { toolchainErrors } from "../errors.ts";
import { parseModel } from "../onnx/model-file.ts";
import { seededRandom } from "../seeded-random.ts";
import { supportsSequences, emulateFp16Rounding } from "./emulate-rounding.ts";
import { encodeFloat16 } from "./float16.ts";
import { DifferenceAccumulator, type OutputDifference } from "./output-difference.ts";

export interface ModelComparison {
  /**
   * False for graphs with old operators, which the CPU computes partly in FP32. Differences are
   * then smaller than on a GPU.
   */
  readonly rounds: boolean;
  readonly runs: number;
  readonly outputs: readonly OutputDifference[];
}

/** Number of inputs per shape. More take long on large models and do not change the result. */
const RUNS_PER_SHAPE = 8;

/**
 * Runs both graphs on real numbers from -1 to 1, and on integers 0 and 1.
 * @throws session_failed if either graph does not load or the converted one does not run;
 * not_comparable if the original does not run on such inputs
 */
export async function compareModels(
  runtime: Runtime,
  before: Uint8Array,
  after: Uint8Array,
): Promise<ModelComparison> {
  const rounds = supportsSequences(parseModel(after));
  const original = await runtime.createSession(before);
  try {
    const converted = await runtime.createSession(rounds ? emulateFp16Rounding(after) : after);
    try {
      return { rounds, ...(await compareSessions(original, converted)) };
    } finally {
      await converted.dispose();
    }
  } finally {
    await original.dispose();
  }
}

async function compareSessions(
  original: Session,
  converted: Session,
): Promise<Omit<ModelComparison, "rounds">> {
  const text = original.inputs.find(({ datatype }) => datatype === "BYTES");
  if (text !== undefined) throw toolchainErrors.notComparable(`input ${text.name} is text`);
  const accumulators = new Map(
    original.outputs.map(({ name }) => [name, new DifferenceAccumulator(name)]),
  );
  let runs = 0;
  for (const [position, shapes] of createWarmUpInputs(original.inputs).entries()) {
    for (let round = 0; round < RUNS_PER_SHAPE; round++) {
      const inputs = randomizeTensors(shapes, 1_000 * position + round);
      const expected = await original.run(inputs).catch((error: unknown) => {
        throw toolchainErrors.notComparable(reasonOf(error), error);
      });
      const found = await converted.run(castToInputPrecision(converted.inputs, inputs));
      for (const [name, differences] of accumulators) differences.add(expected[name], found[name]);
      runs++;
    }
  }
  return { runs, outputs: [...accumulators.values()].map((accumulator) => accumulator.result()) };
}

/** Replaces numeric elements with seeded random ones. Shapes and types remain. */
export function randomizeTensors(tensors: NamedTensors, seed: number): NamedTensors {
  const next = seededRandom(seed);
  return Object.fromEntries(
    Object.entries(tensors).map(([name, tensor]): [string, Tensor] => {
      switch (tensor.datatype) {
        case "FP32":
          return [name, { ...tensor, data: tensor.data.map(() => 2 * next() - 1) }];
        case "INT64":
          return [name, { ...tensor, data: tensor.data.map(() => (next() < 0.5 ? 0n : 1n)) }];
        case "INT32":
          return [name, { ...tensor, data: tensor.data.map(() => (next() < 0.5 ? 0 : 1)) }];
        default:
          return [name, tensor];
      }
    }),
  );
}

function castToInputPrecision(specs: readonly TensorSpec[], tensors: NamedTensors): NamedTensors {
  return Object.fromEntries(
    specs.flatMap(({ name, datatype }): [string, Tensor][] => {
      const tensor = tensors[name];
      if (tensor === undefined) return [];
      return [
        [
          name,
          datatype === "FP16" && tensor.datatype === "FP32"
            ? { datatype, shape: tensor.shape, data: encodeFloat16(tensor.data).bits }
            : tensor,
        ],
      ];
    }),
  );
}
