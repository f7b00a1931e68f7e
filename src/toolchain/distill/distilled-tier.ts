// What comes of `edgetier model distil`: a tier before its teacher, and what the students were worth that it was chosen from.

import { toolchainErrors } from "../errors.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import type { CandidateGraph } from "../evaluate/evaluate-candidates.ts";
import type { Runner } from "../evaluate/runner.ts";
import { seededRandom } from "../seeded-random.ts";
import type { TierInsertion } from "./insert-tier.ts";
import type { DistillProgress } from "./train-students.ts";

export interface DistillContext {
  /** For the place of the tier. */
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
  /** The teacher first, then students, then those on labels alone. */
  readonly evaluations: readonly Row[];
  /** Name of the student that was taken. */
  readonly chosen: string;
  /** That the student has learnt. */
  readonly trainingCount: number;
  /** That it was judged on. */
  readonly evaluationCount: number;
}

/** Of the samples, where none are given to judge on. */
const HOLDOUT_SHARE = 0.1;
/** Chosen by the seed. @throws not_distillable where there are too few */
export function splitHoldout<Item>(
  samples: readonly Item[],
  seed: number,
): { readonly learnt: readonly Item[]; readonly heldOut: readonly Item[] } {
  const random = seededRandom(seed);
  const drawn = samples.map(() => random() < HOLDOUT_SHARE);
  const [learnt, heldOut] = [
    samples.filter((_, sample) => !drawn[sample]),
    samples.filter((_, sample) => drawn[sample]),
  ];
  if (learnt.length === 0 || heldOut.length === 0)
    throw toolchainErrors.notDistillable(
      `of ${samples.length} samples, none can be held out to judge the student on`,
      "Give more samples, or others to judge on with --validation.",
    );
  return { learnt, heldOut };
}

/** Of the students in INT8. */
export function selectBestInt8Student<Row extends { readonly name: string }>(
  judged: readonly Row[],
  students: readonly CandidateGraph[],
  worth: (row: Row) => number,
): Row {
  const integers = judged.filter(
    ({ name }) => name !== "fp32" && students.some((one) => one.name === name),
  );
  const [best] = integers.toSorted((one, other) => worth(other) - worth(one));
  if (best === undefined)
    throw toolchainErrors.notDistillable(
      "no student in INT8 could be run",
      "Run it in FP32 first: `edgetier model inspect` shows its operators.",
    );
  return best;
}

export function findStudentGraph(students: readonly CandidateGraph[], name: string): Uint8Array {
  const found = students.find((one) => one.name === name);
  if (found === undefined) throw new RangeError(`there is no student ${name}`);
  return found.graph;
}
