// Verifies that a changed graph has the outputs of the original, for the same inputs.

import { EdgeTierError, reasonOf } from "../../core/errors.ts";
import type { NamedTensors, Tensor, TensorSpec } from "../../core/tensor.ts";
import type { Runtime, Session } from "../../runtime/runtime.ts";
import { createWarmUpInputs } from "../engine/synthetic-inputs.ts";
import { toolchainErrors } from "../errors.ts";
import { randomizeTensors } from "../fp16/compare-models.ts";
import { DifferenceAccumulator, type OutputDifference } from "../fp16/output-difference.ts";

/**
 * Exceeds rounding: reordered FP32 sums in a graph of hundreds of layers differ by a thousandth of
 * this.
 */
export const DEFAULT_TOLERANCE = 1e-3;

export interface OutputVerification {
  readonly runs: number;
  readonly outputs: readonly OutputDifference[];
  /** Differences beyond the tolerance; empty if the outputs match. */
  readonly problems: readonly string[];
}

export interface VerificationOptions {
  /** Generated from a seed by default. */
  readonly inputs?: readonly NamedTensors[];
  /** Allowed deviation of a value, relative to the largest magnitude of its output. */
  readonly tolerance?: number;
}

/** Number of generated inputs per shape. */
const RUNS_PER_SHAPE = 4;

/**
 * @throws session_failed if either graph does not load or the changed one does not run;
 * not_comparable if the original does not run
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

/** Like `verifyOutputs`, for open sessions. */
export async function verifySessions(
  original: RunnableSession,
  changed: RunnableSession,
  { inputs = generateInputs(original.inputs), tolerance = DEFAULT_TOLERANCE }: VerificationOptions,
): Promise<OutputVerification> {
  const accumulators = new Map(
    original.outputs.map(({ name }) => [name, new DifferenceAccumulator(name)]),
  );
  const problems = new Set<string>();
  for (const tensors of inputs) {
    const expected = await original.run(tensors).catch((error: unknown) => {
      throw toolchainErrors.notComparable(reasonOf(error), error);
    });
    const found = await changed.run(tensors);
    for (const [name, differences] of accumulators) {
      const problem = findExactMismatch(expected[name], found[name]);
      if (problem !== undefined) problems.add(`output ${name} ${problem}`);
      else differences.add(expected[name], found[name]);
    }
  }
  const outputs = [...accumulators.values()].map((accumulator) => accumulator.result());
  for (const { output, maxAbsolute, largest, lost } of outputs) {
    if (lost > 0) problems.add(`output ${output} has ${lost} new non-finite values`);
    if (maxAbsolute > tolerance * largest)
      problems.add(
        `output ${output} deviates by ${maxAbsolute.toPrecision(3)}, with values up to ${largest.toPrecision(3)}`,
      );
  }
  return { runs: inputs.length, outputs, problems: [...problems] };
}

/** Compares shapes, types, integers, texts and non-finite values, which must be identical. */
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
      const position = expected.data.findIndex(
        (value: number | bigint, index: number) =>
          !mayDiffer(value) && !Object.is(value, found.data[index]),
      );
      return position < 0
        ? undefined
        : `is ${found.data[position]} instead of ${expected.data[position]} at index ${position}`;
    }
  }
}

/** Maximum size of one generated input, because a file may declare any shape. */
const MAX_INPUT_ELEMENTS = 64 * 1024 * 1024;

/**
 * Generates inputs from a seed: real numbers from -1 to 1, and integers 0 or 1.
 * @throws not_comparable for text inputs and huge shapes
 */
export function generateInputs(specs: readonly TensorSpec[]): NamedTensors[] {
  for (const { name, datatype, shape } of specs) {
    if (datatype === "BYTES") throw toolchainErrors.notComparable(`input ${name} is text`);
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

/** For callers that tolerate graphs that do not run on generated inputs. */
export const isNotComparableError = (error: unknown): error is EdgeTierError =>
  error instanceof EdgeTierError && error.code === "not_comparable";
