// Chooses how much of each part to prune so that the whole keeps to a budget and loses little: step by step, where the
// judge's score falls least for what is saved. Losses are taken to add up, which they do only roughly: judge the result.

import { toolchainErrors } from "../errors.ts";
import type { PartSensitivity, Sensitivity, Subject } from "./sensitivity.ts";

export interface PrunePlan {
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
export function planRatios(subject: Subject, { parts }: Sensitivity, budget: number): PrunePlan {
  let ratios: ReadonlyMap<string, number> = new Map();
  let cost = subject.cost(ratios);
  while (cost > budget) {
    const next = parts
      .flatMap((part) => stepsOf(subject, part, ratios, cost))
      .reduce<Step | undefined>(
        (best, step) => (best !== undefined && !isBetter(step, best) ? best : step),
        undefined,
      );
    if (next === undefined) throw toolchainErrors.pruningBudget(budget, cost);
    ({ ratios, cost } = next);
  }
  for (
    let back = giveBack(subject, parts, ratios, budget);
    back !== undefined;
    back = giveBack(subject, parts, ratios, budget)
  )
    ({ ratios, cost } = back);
  return {
    ratios,
    cost,
    expectedLoss: parts.reduce((sum, part) => sum + lossAt(part, ratios.get(part.part) ?? 0), 0),
  };
}

/** The last steps may have gone further than the budget asks. @returns the one part less pruned that gains most, if that keeps to it */
function giveBack(
  subject: Subject,
  parts: readonly PartSensitivity[],
  ratios: ReadonlyMap<string, number>,
  budget: number,
): Omit<Step, "lossPerSaving"> | undefined {
  const steps = parts.flatMap((part) => {
    const reached = ratios.get(part.part) ?? 0;
    return [0, ...part.points.map(({ ratio }) => ratio)]
      .filter((ratio) => ratio < reached)
      .flatMap((ratio) => {
        const less = new Map(ratios);
        if (ratio === 0) less.delete(part.part);
        else less.set(part.part, ratio);
        const [cost, gain] = [subject.cost(less), lossAt(part, reached) - lossAt(part, ratio)];
        return cost <= budget && gain > 0 ? [{ ratios: less, cost, gain }] : [];
      });
  });
  return steps.toSorted((a, b) => b.gain - a.gain)[0];
}

interface Step {
  readonly ratios: ReadonlyMap<string, number>;
  readonly cost: number;
  readonly lossPerSaving: number;
}

/** From what is pruned of a part so far to more of it. */
function stepsOf(
  subject: Subject,
  part: PartSensitivity,
  ratios: ReadonlyMap<string, number>,
  cost: number,
): Step[] {
  const reached = ratios.get(part.part) ?? 0;
  return part.points
    .filter(({ ratio }) => ratio > reached)
    .flatMap(({ ratio }): Step[] => {
      const more = new Map(ratios).set(part.part, ratio);
      const left = subject.cost(more);
      return left < cost
        ? [
            {
              ratios: more,
              cost: left,
              lossPerSaving: (lossAt(part, ratio) - lossAt(part, reached)) / (cost - left),
            },
          ]
        : [];
    });
}

const isBetter = (one: Step, other: Step): boolean =>
  one.lossPerSaving < other.lossPerSaving ||
  (one.lossPerSaving === other.lossPerSaving && one.cost > other.cost);

/** More pruning is not taken to be better, even where chance made it so. */
const lossAt = ({ points }: PartSensitivity, ratio: number): number =>
  Math.max(0, ...points.filter((point) => point.ratio <= ratio).map(({ loss }) => loss));
