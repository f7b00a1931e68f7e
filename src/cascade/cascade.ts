// The loop over tiers: each answers what the tiers before it were not sure of. Pure policy; tiers are injected.

import { asEdgeTierError, EdgeTierError, errors } from "../core/errors.ts";
import type { TaskInput } from "../tasks/task.ts";
import type { Answer } from "./calibration.ts";
import type { Deadline } from "./deadline.ts";
import { type ExitRule, exits } from "./exit.ts";

export interface Tier {
  readonly id: string;
  readonly exit: ExitRule | null;
  /** One answer per input, in order. Rejects with an EdgeTierError; must stop at `deadline.signal`. */
  run(inputs: readonly TaskInput[], deadline: Deadline): Promise<readonly Answer[]>;
}

export interface Outcome extends Answer {
  /** The tier whose answer this is. */
  readonly tier: string;
  /** The best answer so far, returned because a fault or the deadline forbade escalation. */
  readonly degraded: boolean;
  /** Code of the error that forbade it. */
  readonly degradedBy?: string;
}

export interface TierUse {
  readonly tier: string;
  /** How many inputs the tier was asked about. */
  readonly inputs: number;
  /** Code of the error, where the tier failed. */
  readonly error?: string;
}

export interface CascadeResult {
  readonly outcomes: readonly Outcome[];
  readonly uses: readonly TierUse[];
}

/** What no other tier could answer either: an input that turns out broken only when it is read in full. */
const FAULTS_OF_INPUTS = new Set(["invalid_image"]);

/**
 * @param tiers in order; the last one's answer is always taken
 * @param maxTier id of the last tier that may be asked; its answer then counts as final, not as degraded
 * @throws no_such_tier; invalid_image; the last tier's error where no tier gave any answer
 */
export async function runCascade(
  tiers: readonly Tier[],
  inputs: readonly TaskInput[],
  deadline: Deadline,
  maxTier?: string,
): Promise<CascadeResult> {
  const allowed = maxTier === undefined ? tiers : tiers.slice(0, tiers.findIndex((tier) => tier.id === maxTier) + 1);
  const outcomes: (Outcome | undefined)[] = inputs.map(() => undefined);
  const uses: TierUse[] = [];
  let open = inputs.map((_, index) => index);
  let failure: EdgeTierError | undefined;

  for (const [position, tier] of allowed.entries()) {
    if (open.length === 0) break;
    if (deadline.signal.aborted && (deadline.strict || open.every((index) => outcomes[index] !== undefined))) {
      failure = asEdgeTierError(deadline.signal.reason);
      break;
    }
    try {
      const answers = await tier.run(open.map((index) => inputs[index] as TaskInput), deadline);
      const exit = position === allowed.length - 1 ? null : tier.exit;
      uses.push({ tier: tier.id, inputs: open.length });
      open.forEach((index, row) => {
        outcomes[index] = { ...(answers[row] as Answer), tier: tier.id, degraded: false };
      });
      open = open.filter((_, row) => !exits(answers[row] as Answer, exit));
      failure = undefined;
    } catch (error) {
      failure = asEdgeTierError(error);
      if (FAULTS_OF_INPUTS.has(failure.code)) throw failure;
      uses.push({ tier: tier.id, inputs: open.length, error: failure.code });
    }
  }

  if (failure !== undefined) {
    for (const index of open) {
      const best = outcomes[index];
      if (best === undefined) throw failure;
      outcomes[index] = { ...best, degraded: true, degradedBy: failure.code };
    }
  }
  return { outcomes: outcomes as Outcome[], uses };
}

/** @throws no_such_tier */
export function checkMaxTier(model: string, tiers: readonly Tier[], maxTier: string | undefined): void {
  if (maxTier === undefined || tiers.some((tier) => tier.id === maxTier)) return;
  throw errors.noSuchTier(model, maxTier, tiers.map((tier) => tier.id));
}
