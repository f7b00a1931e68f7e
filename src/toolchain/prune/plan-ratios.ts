// Chooses how much of each part to prune so that the whole keeps to a budget and loses little: step by step, where the
// judge's score falls least for what is saved. Losses are taken to add up, which they do only roughly: judge the result.

import { toolchainErrors } from "../errors.ts";
import type { PartSensitivity, PruningSensitivity, PruningTarget } from "./sensitivity.ts";

export interface PruningPlan {
  /** By part; those that are not named are left as they are. */
  readonly ratios: ReadonlyMap<string, number>;
  readonly cost: number;
  /** The sum of the losses that were measured for the parts. */
  readonly expectedLoss: number;
}

/**
 * @param budget in the unit of the subject's cost
 * @throws pruning_budget if all parts pruned as far as was measured still cost more
 */
export function planRatios(
  subject: PruningTarget,
  { parts }: PruningSensitivity,
  budget: number,
): PruningPlan {
  let ratios: ReadonlyMap<string, number> = new Map();
  let cost = subject.computeCost(ratios);
  while (cost > budget) {
    const next = parts
      .flatMap((part) => listPlanSteps(subject, part, ratios, cost))
      .reduce<PlanStep | undefined>(
        (best, step) => (best !== undefined && !isBetter(step, best) ? best : step),
        undefined,
      );
    if (next === undefined) throw toolchainErrors.pruningBudget(budget, cost);
    ({ ratios, cost } = next);
  }
  for (
    let back = relaxPlan(subject, parts, ratios, budget);
    back !== undefined;
    back = relaxPlan(subject, parts, ratios, budget)
  )
    ({ ratios, cost } = back);
  return {
    ratios,
    cost,
    expectedLoss: parts.reduce(
      (sum, part) => sum + expectedLossAt(part, ratios.get(part.part) ?? 0),
      0,
    ),
  };
}

/** The last steps may have gone further than the budget asks. @returns the one part less pruned that gains most, if that keeps to it */
function relaxPlan(
  subject: PruningTarget,
  parts: readonly PartSensitivity[],
  ratios: ReadonlyMap<string, number>,
  budget: number,
): Omit<PlanStep, "lossPerSaving"> | undefined {
  const steps = parts.flatMap((part) => {
    const reached = ratios.get(part.part) ?? 0;
    return [0, ...part.points.map(({ ratio }) => ratio)]
      .filter((ratio) => ratio < reached)
      .flatMap((ratio) => {
        const less = new Map(ratios);
        if (ratio === 0) less.delete(part.part);
        else less.set(part.part, ratio);
        const [cost, gain] = [
          subject.computeCost(less),
          expectedLossAt(part, reached) - expectedLossAt(part, ratio),
        ];
        return cost <= budget && gain > 0 ? [{ ratios: less, cost, gain }] : [];
      });
  });
  return steps.toSorted((a, b) => b.gain - a.gain)[0];
}

interface PlanStep {
  readonly ratios: ReadonlyMap<string, number>;
  readonly cost: number;
  readonly lossPerSaving: number;
}

/** From what is pruned of a part so far to more of it. */
function listPlanSteps(
  subject: PruningTarget,
  part: PartSensitivity,
  ratios: ReadonlyMap<string, number>,
  cost: number,
): PlanStep[] {
  const reached = ratios.get(part.part) ?? 0;
  return part.points
    .filter(({ ratio }) => ratio > reached)
    .flatMap(({ ratio }): PlanStep[] => {
      const more = new Map(ratios).set(part.part, ratio);
      const left = subject.computeCost(more);
      return left < cost
        ? [
            {
              ratios: more,
              cost: left,
              lossPerSaving:
                (expectedLossAt(part, ratio) - expectedLossAt(part, reached)) / (cost - left),
            },
          ]
        : [];
    });
}

const isBetter = (one: PlanStep, other: PlanStep): boolean =>
  one.lossPerSaving < other.lossPerSaving ||
  (one.lossPerSaving === other.lossPerSaving && one.cost > other.cost);

/** More pruning is not taken to be better, even where chance made it so. */
const expectedLossAt = ({ points }: PartSensitivity, ratio: number): number =>
  Math.max(0, ...points.filter((point) => point.ratio <= ratio).map(({ loss }) => loss));
