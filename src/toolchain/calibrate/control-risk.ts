// Learn-then-Test (Angelopoulos et al. 2021, "Learn then Test: Calibrating Predictive Algorithms to Achieve Risk Control"):
// a cascade's exits, all together, for a risk that is stated.
//
// What is guaranteed. Let a path of threshold vectors be fixed without the samples of the tested part, which are drawn independently of
// each other from what is served. Then, with a chance of at least 1 - delta over that part, the risk of the vector that is
// chosen is at most epsilon. For: fixed-sequence testing goes along the path, tests "the risk is above epsilon" at the level delta, and
// stops at the first vector that does not pass. A wrong one can only be accepted if the first wrong one on the path passes,
// which its p-value allows with a chance of delta at most, however many vectors are tested. All that pass hold at once, so
// that any of them may be taken, by whatever one likes; here, the cheapest.
//
// Neither may the graphs or their out-of-scope rules have been made with the tested samples: then the samples flatter them, as they do whoever
// trains on them, and the bound is of that much less worth.
//
// Ties and rounding: thresholds are tested as they are written and compared as they are served (`confidence >= threshold`), so equal
// confidences exit together in both. Discreteness makes the p-values larger than they had to be, never smaller.
//
// Out of scope: an early tier's verdict goes on to the next, and costs no risk; a last tier's verdict is an answer
// like any other, and an early answer in scope is then a disagreement. Samples without a label of the model count for what they are.
//
// Not in it: answers that a deadline or a fault degrades; other numbers of another runtime or execution provider; and traffic that is not
// as the samples are, for which the drift check is (serving/drift-check.ts).

import { empiricalRisk, minSamplesForBound, type RiskKind, computeRiskPValue } from "./p-values.ts";
import {
  type ProfiledTier,
  type Thresholds,
  type CascadeSimulation,
  simulateCascade,
} from "./simulate-cascade.ts";

export interface RiskBound {
  readonly what: RiskKind;
  readonly epsilon: number;
  readonly delta: number;
}

export interface TestedThresholds extends CascadeSimulation {
  readonly thresholds: Thresholds;
  readonly risk: number;
  readonly pValue: number;
  readonly isValid: boolean;
}

export interface RiskControl {
  /** Along the path, to the first that did not pass, that one included. */
  readonly path: readonly TestedThresholds[];
  /** Undefined where not even the first of the path passed. */
  readonly chosen: TestedThresholds | undefined;
}

export interface RiskControlOptions extends RiskBound {
  readonly deadlineMs: number;
}

/** @param part positions of the samples to test on: none of those from which the path or a calibration was learnt */
export function controlRisk(
  tiers: readonly ProfiledTier[],
  order: readonly Thresholds[],
  part: readonly number[],
  truth: readonly string[],
  options: RiskControlOptions,
): RiskControl {
  const { what, epsilon, delta, deadlineMs } = options;
  const path: TestedThresholds[] = [];
  for (const thresholds of order) {
    const walked = simulateCascade(tiers, thresholds, part, truth, what, deadlineMs);
    const pValue = computeRiskPValue(what, walked.counts, epsilon);
    path.push({
      ...walked,
      thresholds,
      risk: empiricalRisk(walked.counts),
      pValue,
      isValid: pValue <= delta,
    });
    if (pValue > delta) break;
  }
  const [chosen] = path
    .filter(({ isValid }) => isValid)
    .toSorted((a, b) => a.meanCost - b.meanCost || a.meanMs - b.meanMs);
  return { path, chosen };
}

/** How a bound that was not reached could be: so many tested samples for this epsilon, or these for so large an epsilon. */
export interface AttainableBound {
  readonly samples: number;
  /** Undefined where none below 1 is, or where nothing could be tested. */
  readonly epsilon: number | undefined;
}

/** Of the first vector of the path: the least that would have let it pass. */
export function findAttainableBound(
  { path }: RiskControl,
  { what, epsilon, delta }: RiskBound,
): AttainableBound {
  const first = path[0];
  if (first === undefined)
    return { samples: minSamplesForBound(epsilon, delta), epsilon: undefined };
  const passes = (bound: number) => computeRiskPValue(what, first.counts, bound) <= delta;
  let [low, high] = [0, 1];
  for (let step = 0; step < 30; step++) {
    const middle = (low + high) / 2;
    if (passes(middle)) high = middle;
    else low = middle;
  }
  const least = Math.ceil(high * 1e4) / 1e4;
  return { samples: minSamplesForBound(epsilon, delta), epsilon: least < 1 ? least : undefined };
}
