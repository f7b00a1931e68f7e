// Result of `edgetier model distill`: the new tier before its teacher, and the evaluation of the
// students behind the choice.

import type { Runtime } from "../../runtime/runtime.ts";
import { toolchainErrors } from "../errors.ts";
import type { CandidateGraph } from "../evaluate/evaluate-candidates.ts";
import type { Runner } from "../evaluate/runner.ts";
import { seededRandom } from "../seeded-random.ts";
import type { TierInsertion } from "./insert-tier.ts";
import type { DistillProgress } from "./train-students.ts";

export interface DistillContext {
  /** Runner for the tier's place. */
  readonly runner: Runner;
  readonly runtime: Runtime;
  readonly rounds?: number;
  readonly onProgress?: (
    progress:
      | DistillProgress
      | { readonly step: "judge"; readonly done: number; readonly total: number },
  ) => void;
}

export interface DistilledTier<Row> {
  readonly tier: TierInsertion;
  /** The teacher first, then the students, then the label-only baselines. */
  readonly evaluations: readonly Row[];
  /** Name of the chosen student. */
  readonly chosen: string;
  /** Number of training samples. */
  readonly trainingCount: number;
  /** Number of evaluation samples. */
  readonly evaluationCount: number;
}

/** Share of the samples that is held out for the evaluation if there is no validation file. */
const HOLDOUT_SHARE = 0.1;
/** The seed determines the split. @throws not_distillable if there are too few samples */
export function splitHoldout<Item>(
  samples: readonly Item[],
  seed: number,
): { readonly training: readonly Item[]; readonly heldOut: readonly Item[] } {
  const random = seededRandom(seed);
  const isHeldOut = samples.map(() => random() < HOLDOUT_SHARE);
  const [training, heldOut] = [
    samples.filter((_, sample) => isHeldOut[sample] !== true),
    samples.filter((_, sample) => isHeldOut[sample] === true),
  ];
  if (training.length === 0 || heldOut.length === 0)
    throw toolchainErrors.notDistillable(
      `${samples.length} samples are too few to hold some out for the evaluation`,
      "Give more samples, or give evaluation samples with --validation.",
    );
  return { training, heldOut };
}

/** @throws not_distillable if no INT8 student could be run */
export function selectBestInt8Student<Row extends { readonly name: string }>(
  evaluations: readonly Row[],
  students: readonly CandidateGraph[],
  score: (row: Row) => number,
): Row {
  const int8Students = evaluations.filter(
    ({ name }) => name !== "fp32" && students.some((student) => student.name === name),
  );
  const [best] = int8Students.toSorted((a, b) => score(b) - score(a));
  if (best === undefined)
    throw toolchainErrors.notDistillable(
      "no INT8 student could be run",
      "Run the student in FP32 first; `edgetier model inspect` shows its operators.",
    );
  return best;
}

export function findStudentGraph(students: readonly CandidateGraph[], name: string): Uint8Array {
  const student = students.find((candidate) => candidate.name === name);
  if (student === undefined) throw new RangeError(`There is no student ${name}.`);
  return student.graph;
}
