// Plans the pruning ratio of each part within a budget. A greedy search takes the step with the
// smallest loss of score for the saving. It assumes that losses add up, which is only approximately
// true, so the result must be evaluated.

import { toolchainErrors } from "../errors.ts";
import type { PartSensitivity, PruningSensitivity, PruningTarget } from "./sensitivity.ts";

export interface PruningPlan {
  /** Ratio by part; parts without a ratio are not pruned. */
  readonly ratios: ReadonlyMap<string, number>;
  readonly cost: number;
  /** Sum of the losses that were measured for the parts. */
  readonly expectedLoss: number;
}

/**
 * @param budget maximum cost, in the unit of `target.computeCost`
 * @throws pruning_budget if the largest measured ratios of all parts still cost more
 */
export function planRatios(
  target: PruningTarget,
  { parts }: PruningSensitivity,
  budget: number,
): PruningPlan {
  let ratios: ReadonlyMap<string, number> = new Map();
  let cost = target.computeCost(ratios);
  while (cost > budget) {
    const next = parts
      .flatMap((part) => listPlanSteps(target, part, ratios, cost))
      .reduce<PlanStep | undefined>(
        (best, step) => (best !== undefined && !isBetter(step, best) ? best : step),
        undefined,
      );
    if (next === undefined) throw toolchainErrors.pruningBudget(budget, cost);
    ({ ratios, cost } = next);
  }
  for (
    let relaxed = relaxPlan(target, parts, ratios, budget);
    relaxed !== undefined;
    relaxed = relaxPlan(target, parts, ratios, budget)
  )
    ({ ratios, cost } = relaxed);
  return {
    ratios,
    cost,
    expectedLoss: parts.reduce(
      (sum, part) => sum + expectedLossAt(part, ratios.get(part.part) ?? 0),
      0,
    ),
  };
}

/**
 * Prunes one part less, because the last steps may exceed the required saving.
 * @returns the relaxation that gains the most within the budget; undefined if there is none
 */
function relaxPlan(
  target: PruningTarget,
  parts: readonly PartSensitivity[],
  ratios: ReadonlyMap<string, number>,
  budget: number,
): Omit<PlanStep, "lossPerSaving"> | undefined {
  const steps = parts.flatMap((part) => {
    const reached = ratios.get(part.part) ?? 0;
    return [0, ...part.points.map(({ ratio }) => ratio)]
      .filter((ratio) => ratio < reached)
      .flatMap((ratio) => {
        const relaxedRatios = new Map(ratios);
        if (ratio === 0) relaxedRatios.delete(part.part);
        else relaxedRatios.set(part.part, ratio);
        const [cost, gain] = [
          target.computeCost(relaxedRatios),
          expectedLossAt(part, reached) - expectedLossAt(part, ratio),
        ];
        return cost <= budget && gain > 0 ? [{ ratios: relaxedRatios, cost, gain }] : [];
      });
  });
  return steps.toSorted((a, b) => b.gain - a.gain)[0];
}

interface PlanStep {
  readonly ratios: ReadonlyMap<string, number>;
  readonly cost: number;
  readonly lossPerSaving: number;
}

/** Lists the steps from a part's current ratio to larger ones. */
function listPlanSteps(
  target: PruningTarget,
  part: PartSensitivity,
  ratios: ReadonlyMap<string, number>,
  cost: number,
): PlanStep[] {
  const reached = ratios.get(part.part) ?? 0;
  return part.points
    .filter(({ ratio }) => ratio > reached)
    .flatMap(({ ratio }): PlanStep[] => {
      const nextRatios = new Map(ratios).set(part.part, ratio);
      const nextCost = target.computeCost(nextRatios);
      if (nextCost >= cost) return [];
      const addedLoss = expectedLossAt(part, ratio) - expectedLossAt(part, reached);
      return [{ ratios: nextRatios, cost: nextCost, lossPerSaving: addedLoss / (cost - nextCost) }];
    });
}

const isBetter = (step: PlanStep, best: PlanStep): boolean =>
  step.lossPerSaving < best.lossPerSaving ||
  (step.lossPerSaving === best.lossPerSaving && step.cost > best.cost);

/** Takes the largest loss up to the ratio, because a better score after more pruning is chance. */
const expectedLossAt = ({ points }: PartSensitivity, ratio: number): number =>
  Math.max(0, ...points.filter((point) => point.ratio <= ratio).map(({ loss }) => loss));
