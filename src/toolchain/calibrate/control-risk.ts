// Controls the risk of a cascade's exits by Learn-then-Test (Angelopoulos et al. 2021, "Learn then
// Test: Calibrating Predictive Algorithms to Achieve Risk Control"). All exits are tested together.
//
// Guarantee: the chosen thresholds have a risk of at most epsilon, with a probability of at least
// 1 - delta over the tested samples. The path of thresholds must not depend on the tested samples,
// and these must be independent draws from production traffic. Fixed-sequence testing follows the
// path, tests the hypothesis "the risk is above epsilon" at level delta, and stops at the first
// thresholds that fail. A wrong acceptance requires that the test rejects the first true hypothesis
// on the path. Its p-value allows that with a probability of at most delta, for any number of
// tests. All accepted thresholds hold simultaneously, so that any of them may be chosen. This
// implementation chooses the cheapest.
//
// Training data: if the tested samples also trained the graphs or their out-of-scope rules, their
// risk is too optimistic and the bound loses its value.
//
// Ties and rounding: thresholds are tested with their written digits and with the comparison of
// production (`confidence >= threshold`), so that equal confidences exit together in both. The
// discreteness of the counts makes p-values larger than necessary, never smaller.
//
// Out-of-scope inputs: an out-of-scope verdict of an early tier continues to the next tier and
// causes no risk. The verdict of the last tier is an ordinary answer, so that an early in-scope
// answer then counts as a disagreement. Samples whose label the model does not have count as they
// are.
//
// Limits: the guarantee excludes answers degraded by a deadline or a fault. It excludes numeric
// differences of other runtimes or execution providers. It excludes traffic that differs from the
// samples, which the drift check detects (serving/drift-check.ts).

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
  /** Tested thresholds in the order of the path, up to and including the first that failed. */
  readonly path: readonly TestedThresholds[];
  /** The cheapest thresholds that passed; undefined if none did. */
  readonly chosen: TestedThresholds | undefined;
}

export interface RiskControlOptions extends RiskBound {
  readonly deadlineMs: number;
}

/**
 * @param testSamples positions of the tested samples, disjoint from those of the path and the
 *   calibrations
 */
export function controlRisk(
  tiers: readonly ProfiledTier[],
  candidates: readonly Thresholds[],
  testSamples: readonly number[],
  groundTruth: readonly string[],
  options: RiskControlOptions,
): RiskControl {
  const { what, epsilon, delta, deadlineMs } = options;
  const path: TestedThresholds[] = [];
  for (const thresholds of candidates) {
    const simulation = simulateCascade(
      tiers,
      thresholds,
      testSamples,
      groundTruth,
      what,
      deadlineMs,
    );
    const pValue = computeRiskPValue(what, simulation.counts, epsilon);
    path.push({
      ...simulation,
      thresholds,
      risk: empiricalRisk(simulation.counts),
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

/**
 * Requirements for a bound that failed: tested samples for the given epsilon, or an epsilon for the
 * given samples.
 */
export interface AttainableBound {
  readonly samples: number;
  /** Undefined if no epsilon below 1 suffices, or if nothing could be tested. */
  readonly epsilon: number | undefined;
}

/** Computes the minimum with which the first thresholds of the path would have passed. */
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
  const attainable = Math.ceil(high * 1e4) / 1e4;
  return {
    samples: minSamplesForBound(epsilon, delta),
    epsilon: attainable < 1 ? attainable : undefined,
  };
}
