// Whether a changed graph answers as the original does, on the same inputs.

import { toolchainErrors } from "../errors.ts";
import { EdgeTierError, reasonOf } from "../../core/errors.ts";
import type { NamedTensors, Tensor, TensorSpec } from "../../core/tensor.ts";
import type { Runtime, Session } from "../../runtime/runtime.ts";
import { createWarmUpInputs } from "../engine/synthetic-inputs.ts";
import { randomizeTensors } from "../fp16/compare-models.ts";
import { DifferenceAccumulator, type OutputDifference } from "../fp16/output-difference.ts";

/** Beyond rounding: a graph of hundreds of layers in FP32, summed in another order, is off by a thousandth of this. */
export const DEFAULT_TOLERANCE = 1e-3;

export interface OutputVerification {
  readonly runs: number;
  readonly outputs: readonly OutputDifference[];
  /** What is not as it was; empty where all is. */
  readonly problems: readonly string[];
}

export interface VerificationOptions {
  /** Made up from a seed by default. */
  readonly inputs?: readonly NamedTensors[];
  /** Of the largest magnitude of each output, that a number of it may be off by. */
  readonly tolerance?: number;
}

/** Inputs of each shape that are made up. */
const RUNS_PER_SHAPE = 4;

/**
 * @throws session_failed if one does not load, or the changed one does not run; not_comparable if the original does not run
 */
export async function verifyOutputs(
  runtime: Runtime,
  before: Uint8Array,
  after: Uint8Array,
  options: VerificationOptions = {},
): Promise<OutputVerification> {
  const original = await runtime.createSession(before);
  try {
    const changed = await runtime.createSession(after);
    try {
      return await verifySessions(original, changed, options);
    } finally {
      await changed.dispose();
    }
  } finally {
    await original.dispose();
  }
}

type RunnableSession = Pick<Session, "inputs" | "outputs" | "run">;

/** As `verifyOutputs`, of sessions that are open. */
export async function verifySessions(
  original: RunnableSession,
  changed: RunnableSession,
  { inputs = generateInputs(original.inputs), tolerance = DEFAULT_TOLERANCE }: VerificationOptions,
): Promise<OutputVerification> {
  const sums = new Map(original.outputs.map(({ name }) => [name, new DifferenceAccumulator(name)]));
  const problems = new Set<string>();
  for (const tensors of inputs) {
    const expected = await original.run(tensors).catch((error: unknown) => {
      throw toolchainErrors.notComparable(reasonOf(error), error);
    });
    const found = await changed.run(tensors);
    for (const [name, differences] of sums) {
      const problem = findExactMismatch(expected[name], found[name]);
      if (problem !== undefined) problems.add(`output ${name} ${problem}`);
      else differences.add(expected[name], found[name]);
    }
  }
  const outputs = [...sums.values()].map((one) => one.result());
  for (const { output, maxAbsolute, largest, lost } of outputs) {
    if (lost > 0) problems.add(`output ${output} has ${lost} numbers that are not finite and were`);
    if (maxAbsolute > tolerance * largest)
      problems.add(
        `output ${output} is off by ${maxAbsolute.toPrecision(3)}, with numbers up to ${largest.toPrecision(3)}`,
      );
  }
  return { runs: inputs.length, outputs, problems: [...problems] };
}

/** Shapes, types, whole numbers, texts, and what is not finite are to be the same. */
function findExactMismatch(
  expected: Tensor | undefined,
  found: Tensor | undefined,
): string | undefined {
  if (expected === undefined || found === undefined)
    return expected === found ? undefined : "is missing";
  if (expected.datatype !== found.datatype)
    return `is ${found.datatype} instead of ${expected.datatype}`;
  if (expected.shape.join() !== found.shape.join())
    return `has the shape [${found.shape.join(", ")}] instead of [${expected.shape.join(", ")}]`;
  switch (expected.datatype) {
    case "BYTES":
      return found.datatype === "BYTES" &&
        expected.data.every((text, index) =>
          Buffer.from(text).equals(found.data[index] ?? Buffer.alloc(0)),
        )
        ? undefined
        : "has other texts";
    case "FP16":
      return undefined;
    default: {
      const mayDiffer =
        expected.datatype === "FP32" || expected.datatype === "FP64"
          ? Number.isFinite
          : () => false;
      const at = expected.data.findIndex(
        (value: number | bigint, index: number) =>
          !mayDiffer(value) && !Object.is(value, found.data[index]),
      );
      return at < 0 ? undefined : `is ${found.data[at]} instead of ${expected.data[at]} at ${at}`;
    }
  }
}

/** Of one input that is made up: a file may declare any. */
const MAX_INPUT_ELEMENTS = 64 * 1024 * 1024;

/** Made from a seed: real numbers from -1 to 1, and 0 or 1 where they are whole. @throws not_comparable for texts, and for what is huge */
export function generateInputs(specs: readonly TensorSpec[]): NamedTensors[] {
  for (const { name, datatype, shape } of specs) {
    if (datatype === "BYTES") throw toolchainErrors.notComparable(`input ${name} takes text`);
    const elements = shape.reduce((product, size) => product * (size === -1 ? 64 : size), 1);
    if (elements > MAX_INPUT_ELEMENTS)
      throw toolchainErrors.notComparable(`input ${name} is [${shape.join(", ")}]`);
  }
  return createWarmUpInputs(specs).flatMap((shapes, position) =>
    Array.from({ length: RUNS_PER_SHAPE }, (_, round) =>
      randomizeTensors(shapes, 1_000 * position + round),
    ),
  );
}

/** @throws outputs_changed */
export function assertOutputsMatch({ problems }: OutputVerification): void {
  if (problems.length > 0) throw toolchainErrors.outputsChanged(problems);
}

/** For callers to whom it is no failure that a graph does not run on made-up inputs. */
export const isNotComparableError = (error: unknown): error is EdgeTierError =>
  error instanceof EdgeTierError && error.code === "not_comparable";
