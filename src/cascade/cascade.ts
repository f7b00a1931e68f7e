// Cascade: runs tiers in order; each tier receives the inputs that the earlier tiers did not answer confidently. The policy is
// pure, and tiers are injected.

import { coreErrors } from "../core/common-errors.ts";
import { asEdgeTierError, EdgeTierError } from "../core/errors.ts";
import type { TaskInput } from "../tasks/task.ts";
import type { TierPrediction } from "./calibration.ts";
import type { Deadline } from "./deadline.ts";
import { type ExitRule, shouldExit, shouldExitWhenSaturated } from "./early-exit.ts";
import { cascadeErrors } from "./errors.ts";

export interface CascadeTier {
  readonly id: string;
  readonly exit: ExitRule | null;
  /** Estimated p95 latency for this number of inputs; undefined if unknown. */
  estimateP95Ms?(inputs: number): number | undefined;
  isSaturated?(): boolean;
  /** @returns one prediction per input, in order. Rejects with an EdgeTierError, and must stop at `deadline.signal`. */
  predict(inputs: readonly TaskInput[], deadline: Deadline): Promise<readonly TierPrediction[]>;
}

export interface CascadeOutcome extends TierPrediction {
  /** Id of the tier that answered. */
  readonly tier: string;
  /** Whether a fault, the deadline or a saturated tier prevented escalation of this answer. */
  readonly degraded: boolean;
  /** Code of the error that prevented escalation. */
  readonly degradedBy?: string;
}

export interface TierUsage {
  readonly tier: string;
  /** Number of inputs that the tier received; 0 if it was skipped. */
  readonly inputs: number;
  /** Code of the error if the tier failed or was skipped. */
  readonly error?: string;
}

export interface CascadeResult {
  readonly outcomes: readonly CascadeOutcome[];
  readonly tierUsage: readonly TierUsage[];
}

/** Errors that every tier would return, because the input turns out to be invalid when it is decoded. */
const INPUT_ERROR_CODES = new Set(["invalid_image"]);

/**
 * Runs the cascade. Inputs that already have an answer skip a tier whose p95 latency exceeds the remaining deadline. While a
 * tier is saturated, they skip it if the saturated-exit rule accepts them. Both are marked as degraded.
 * @param tiers in order; the last tier's answer is always accepted
 * @param maxTier id of the last allowed tier, whose answer counts as final and not as degraded
 * @param onUse receives each tier usage, even if the cascade throws later
 * @throws invalid_image; request_cancelled; the last tier's error if no tier answered
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
  const state: CascadeState = {
    tiers: allowed,
    inputs,
    deadline,
    outcomes: inputs.map(() => undefined),
    tierUsage: [],
    open: inputs.map((_, index) => index),
    failure: undefined,
    onUse,
  };
  for (const [position, tier] of allowed.entries()) {
    if (state.open.length === 0) break;
    const decision = decideTier(state, tier, position);
    if (decision === "stop") break;
    if (decision === "run") await runTier(state, tier, position);
  }

  if (deadline.isClientDisconnected) throw deadline.error;
  degradeOpenInputs(state);
  return { outcomes: state.outcomes as CascadeOutcome[], tierUsage: state.tierUsage };
}

interface CascadeState {
  readonly tiers: readonly CascadeTier[];
  readonly inputs: readonly TaskInput[];
  readonly deadline: Deadline;
  /** Best answer so far, by input. */
  readonly outcomes: (CascadeOutcome | undefined)[];
  readonly tierUsage: TierUsage[];
  /** Indexes of the inputs that no tier has answered confidently. */
  open: readonly number[];
  /** Why the last tier did not answer the open inputs. */
  failure: EdgeTierError | undefined;
  readonly onUse: (use: TierUsage) => void;
}

function recordUsage(state: CascadeState, use: TierUsage): void {
  state.tierUsage.push(use);
  state.onUse(use);
}

/** @throws request_cancelled */
function decideTier(
  state: CascadeState,
  tier: CascadeTier,
  position: number,
): "run" | "skip" | "stop" {
  const { deadline, outcomes } = state;
  const { error: deadlineError } = deadline;
  if (deadlineError !== undefined && deadline.isClientDisconnected) throw deadlineError;
  const hasAnswers = state.open.every((index) => outcomes[index] !== undefined);
  // The first tier runs even after the deadline, because an immediate answer of the edge is better than none.
  if (deadlineError !== undefined && (hasAnswers || (deadline.isStrict && position > 0))) {
    state.failure = deadlineError;
    return "stop";
  }
  if (!hasAnswers) return "run";
  const p95Ms = tier.estimateP95Ms?.(state.open.length);
  if (p95Ms !== undefined && p95Ms > deadline.remainingMs()) {
    state.failure = cascadeErrors.deadlineTooNear(tier.id, deadline.remainingMs(), p95Ms);
    recordUsage(state, { tier: tier.id, inputs: 0, error: state.failure.code });
    return "skip";
  }
  if (tier.isSaturated?.() === true) acceptSaturatedExits(state, tier);
  return state.open.length === 0 ? "stop" : "run";
}

/** Accepts the answers that the saturated-exit rule allows, so that the saturated tier receives fewer inputs. */
function acceptSaturatedExits(state: CascadeState, tier: CascadeTier): void {
  const { outcomes, tiers } = state;
  const accepted = new Set(
    state.open.filter((index) => passesSaturatedExit(outcomes[index], tiers)),
  );
  for (const index of accepted)
    outcomes[index] = toDegraded(
      outcomes[index] as CascadeOutcome,
      cascadeErrors.tierSaturated(tier.id),
    );
  state.open = state.open.filter((index) => !accepted.has(index));
}

async function runTier(state: CascadeState, tier: CascadeTier, position: number): Promise<void> {
  const { tiers, inputs, deadline, outcomes, open } = state;
  try {
    const predictions = await tier.predict(
      open.map((index) => inputs[index] as TaskInput),
      deadline,
    );
    const exit = position === tiers.length - 1 ? null : tier.exit;
    recordUsage(state, { tier: tier.id, inputs: open.length });
    open.forEach((index, row) => {
      outcomes[index] = { ...(predictions[row] as TierPrediction), tier: tier.id, degraded: false };
    });
    state.open = open.filter((_, row) => !shouldExit(predictions[row] as TierPrediction, exit));
    state.failure = undefined;
  } catch (error) {
    state.failure = asEdgeTierError(error);
    if (INPUT_ERROR_CODES.has(state.failure.code)) throw state.failure;
    recordUsage(state, { tier: tier.id, inputs: open.length, error: state.failure.code });
  }
}

/** @throws the failure if an open input has no answer */
function degradeOpenInputs({ outcomes, open, failure }: CascadeState): void {
  if (failure === undefined) return;
  for (const index of open) {
    const best = outcomes[index];
    if (best === undefined) throw failure;
    outcomes[index] = toDegraded(best, failure);
  }
}

const toDegraded = (outcome: CascadeOutcome, { code }: EdgeTierError): CascadeOutcome => ({
  ...outcome,
  degraded: true,
  degradedBy: code,
});

/** Applies the saturated-exit rule of the tier that answered. */
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
