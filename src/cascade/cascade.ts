// The loop over tiers: each answers what the tiers before it were not sure of. Pure policy; tiers are injected.

import { cascadeErrors } from "./errors.ts";
import { coreErrors } from "../core/common-errors.ts";
import { asEdgeTierError, EdgeTierError } from "../core/errors.ts";
import type { TaskInput } from "../tasks/task.ts";
import type { TierPrediction } from "./calibration.ts";
import type { Deadline } from "./deadline.ts";
import { type ExitRule, shouldExit, shouldExitWhenSaturated } from "./early-exit.ts";

export interface CascadeTier {
  readonly id: string;
  readonly exit: ExitRule | null;
  /** Within which 95 % of its runs over so many inputs end, as far as is known. */
  estimateP95Ms?(inputs: number): number | undefined;
  /** Whether it has more to do than it can. */
  isSaturated?(): boolean;
  /** One answer per input, in order. Rejects with an EdgeTierError; must stop at `deadline.signal`. */
  predict(inputs: readonly TaskInput[], deadline: Deadline): Promise<readonly TierPrediction[]>;
}

export interface CascadeOutcome extends TierPrediction {
  /** The tier whose answer this is. */
  readonly tier: string;
  /** The best answer so far, returned because a fault, the deadline or a saturated tier forbade escalation. */
  readonly degraded: boolean;
  /** Code of the error that forbade it. */
  readonly degradedBy?: string;
}

export interface TierUsage {
  readonly tier: string;
  /** How many inputs the tier was asked about. */
  readonly inputs: number;
  /** Code of the error, where the tier failed. */
  readonly error?: string;
}

export interface CascadeResult {
  readonly outcomes: readonly CascadeOutcome[];
  readonly tierUsage: readonly TierUsage[];
}

/** What no other tier could answer either: an input that turns out broken only when it is read in full. */
const INPUT_ERROR_CODES = new Set(["invalid_image"]);

/**
 * A tier that would hardly answer in what is left of the deadline is left out where there is an answer already, and so, while a tier is
 * saturated, are the inputs that the rule for that case lets exit. Both are marked as degraded.
 * @param tiers in order; the last one's answer is always taken
 * @param maxTier id of the last tier that may be asked; its answer then counts as final, not as degraded
 * @param onUse is told of each use when it is over, also where the cascade throws in the end
 * @throws invalid_image; request_cancelled; the last tier's error where no tier gave any answer
 */
export async function runCascade(
  tiers: readonly CascadeTier[],
  inputs: readonly TaskInput[],
  deadline: Deadline,
  maxTier?: string,
  onUse: (use: TierUsage) => void = () => {},
): Promise<CascadeResult> {
  const allowed =
    maxTier === undefined
      ? tiers
      : tiers.slice(0, tiers.findIndex((tier) => tier.id === maxTier) + 1);
  const outcomes: (CascadeOutcome | undefined)[] = inputs.map(() => undefined);
  const uses: TierUsage[] = [];
  const used = (use: TierUsage): void => {
    uses.push(use);
    onUse(use);
  };
  let open = inputs.map((_, index) => index);
  let failure: EdgeTierError | undefined;

  for (const [position, tier] of allowed.entries()) {
    if (open.length === 0) break;
    const { error: over } = deadline;
    if (over !== undefined && deadline.isClientDisconnected) throw over;
    const hasAnswers = open.every((index) => outcomes[index] !== undefined);
    // The first tier is asked however late it is: what the edge knows at once is better than nothing.
    if (over !== undefined && (hasAnswers || (deadline.isStrict && position > 0))) {
      failure = over;
      break;
    }
    if (hasAnswers) {
      const p95Ms = tier.estimateP95Ms?.(open.length);
      if (p95Ms !== undefined && p95Ms > deadline.remainingMs()) {
        failure = cascadeErrors.deadlineTooNear(tier.id, deadline.remainingMs(), p95Ms);
        used({ tier: tier.id, inputs: 0, error: failure.code });
        continue;
      }
      if (tier.isSaturated?.() === true) {
        const good = new Set(open.filter((index) => passesSaturatedExit(outcomes[index], allowed)));
        for (const index of good)
          outcomes[index] = toDegraded(
            outcomes[index] as CascadeOutcome,
            cascadeErrors.tierSaturated(tier.id),
          );
        open = open.filter((index) => !good.has(index));
        if (open.length === 0) break;
      }
    }
    try {
      const answers = await tier.predict(
        open.map((index) => inputs[index] as TaskInput),
        deadline,
      );
      const exit = position === allowed.length - 1 ? null : tier.exit;
      used({ tier: tier.id, inputs: open.length });
      open.forEach((index, row) => {
        outcomes[index] = { ...(answers[row] as TierPrediction), tier: tier.id, degraded: false };
      });
      open = open.filter((_, row) => !shouldExit(answers[row] as TierPrediction, exit));
      failure = undefined;
    } catch (error) {
      failure = asEdgeTierError(error);
      if (INPUT_ERROR_CODES.has(failure.code)) throw failure;
      used({ tier: tier.id, inputs: open.length, error: failure.code });
    }
  }

  if (deadline.isClientDisconnected) throw deadline.error;
  if (failure !== undefined) {
    for (const index of open) {
      const best = outcomes[index];
      if (best === undefined) throw failure;
      outcomes[index] = toDegraded(best, failure);
    }
  }
  return { outcomes: outcomes as CascadeOutcome[], tierUsage: uses };
}

const toDegraded = (outcome: CascadeOutcome, { code }: EdgeTierError): CascadeOutcome => ({
  ...outcome,
  degraded: true,
  degradedBy: code,
});

/** By the rule of the tier that gave the answer, for while the next one is saturated. */
function passesSaturatedExit(
  outcome: CascadeOutcome | undefined,
  tiers: readonly CascadeTier[],
): boolean {
  const rule = tiers.find(({ id }) => id === outcome?.tier)?.exit;
  return outcome !== undefined && !!rule && shouldExitWhenSaturated(outcome, rule);
}

/** @throws no_such_tier */
export function checkMaxTier(
  model: string,
  tiers: readonly CascadeTier[],
  maxTier: string | undefined,
): void {
  if (maxTier === undefined || tiers.some((tier) => tier.id === maxTier)) return;
  throw coreErrors.noSuchTier(
    model,
    maxTier,
    tiers.map((tier) => tier.id),
  );
}
