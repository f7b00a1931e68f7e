// Calibrates a cascade: fits the confidences on one part of the samples and selects exits for a
// stated risk on the other.

import type { CalibrationParameters } from "../../cascade/calibration.ts";
import type { NamedTensors } from "../../core/tensor.ts";
import type { RiskGuarantee } from "../../registry/manifest.ts";
import { toolchainErrors } from "../errors.ts";
import { seededRandom, shuffle } from "../seeded-random.ts";
import {
  type RiskControlOptions,
  controlRisk,
  findAttainableBound,
  type RiskBound,
  type RiskControl,
} from "./control-risk.ts";
import {
  applyCalibration,
  fitCalibration,
  type CalibrationMethod,
  type CrossValidationScore,
  crossValidateMethods,
} from "./fit-calibration.ts";
import { empiricalRisk } from "./p-values.ts";
import {
  type TierProfile,
  type ProfiledTier,
  type Thresholds,
  simulateCascade,
} from "./simulate-cascade.ts";
import { buildThresholdPath } from "./threshold-path.ts";

export interface UncalibratedTier {
  readonly id: string;
  /** Current calibration. */
  readonly calibration: CalibrationParameters;
  /** Outputs of the graph, one for each sample. */
  readonly outputs: readonly NamedTensors[];
  readonly profile: TierProfile;
}

export interface LabeledSamples {
  /** Labels in the order of the logits. */
  readonly labels: readonly string[];
  /** The right label of each sample. */
  readonly groundTruth: readonly string[];
}

export interface CalibrateCascadeOptions extends RiskControlOptions {
  /**
   * One method for all tiers, or one for each tier. Without a method, cross-validation selects the
   * best.
   */
  readonly method?: CalibrationMethod | readonly CalibrationMethod[] | undefined;
  /** Default: a shuffle with `seed`. */
  readonly split?: SampleSplit | undefined;
  readonly seed?: number | undefined;
  /**
   * Risk bound above `epsilon`, of the same kind and delta, for exits that apply while the next
   * tier is saturated.
   */
  readonly saturatedEpsilon?: number | undefined;
  /** If the bound is unattainable, routes everything to the last tier instead of failing. */
  readonly allowLastTierOnly?: boolean;
}

export interface CalibratedTier extends ProfiledTier {
  readonly calibration: CalibrationParameters;
  readonly method: CalibrationMethod;
  /** Cross-validation scores of all methods; empty if the method was given. */
  readonly trials: readonly CrossValidationScore[];
}

/** Positions of the samples in each part. */
export interface SampleSplit {
  /** Samples that the calibrations and the threshold path are fitted to. */
  readonly fit: readonly number[];
  /** Samples that the path is tested on. */
  readonly test: readonly number[];
}

export interface CalibratedCascade {
  /** Tiers with predictions for all samples under the new calibrations. */
  readonly tiers: readonly CalibratedTier[];
  readonly split: SampleSplit;
  readonly riskControl: RiskControl;
  readonly thresholds: Thresholds;
  /**
   * Thresholds for a saturated next tier, at most `thresholds`. Absent if not requested or not
   * attainable.
   */
  readonly whenSaturated?: { readonly epsilon: number; readonly thresholds: Thresholds };
  /** Guarantee for the exits; undefined for a single tier, which has none. */
  readonly risk: RiskGuarantee | undefined;
}

const FIT_FRACTION = 0.3;
const DEFAULT_SEED = 1;

/** @param samples positions; the first ones are the fit part */
export function splitSamples(samples: readonly number[]): SampleSplit {
  const count = Math.round(FIT_FRACTION * samples.length);
  return { fit: samples.slice(0, count), test: samples.slice(count) };
}

export const shuffleSplit = (samples: number, seed = DEFAULT_SEED): SampleSplit =>
  splitSamples(shuffle([...Array(samples).keys()], seededRandom(seed)));

/**
 * @param tiers tiers in the order of the cascade, each with outputs for every sample
 * @throws risk_not_reached with the samples or the epsilon that would suffice
 */
export function calibrateCascade(
  tiers: readonly UncalibratedTier[],
  labeled: LabeledSamples,
  options: CalibrateCascadeOptions,
): CalibratedCascade {
  const { groundTruth } = labeled;
  const { allowLastTierOnly = false, split = shuffleSplit(groundTruth.length, options.seed) } =
    options;
  const calibrated = tiers.map((tier, position): CalibratedTier => {
    const method = typeof options.method === "string" ? options.method : options.method?.[position];
    return calibrateTier(tier, labeled, split.fit, method);
  });
  if (tiers.length < 2)
    return {
      tiers: calibrated,
      split,
      riskControl: { path: [], chosen: undefined },
      thresholds: [],
      risk: undefined,
    };

  const path = buildThresholdPath(calibrated, split.fit, groundTruth, options);
  const riskControl = controlRisk(calibrated, path, split.test, groundTruth, options);
  if (riskControl.chosen === undefined && !allowLastTierOnly)
    throw riskNotReachedError(riskControl, split, options);
  const thresholds = riskControl.chosen?.thresholds ?? tiers.slice(1).map(() => 1);
  const whenSaturated = selectSaturatedThresholds(
    calibrated,
    thresholds,
    path,
    split.test,
    groundTruth,
    options,
  );
  return {
    tiers: calibrated,
    split,
    riskControl,
    thresholds,
    ...(whenSaturated === undefined ? {} : { whenSaturated }),
    risk: buildRiskRecord(calibrated, thresholds, split, groundTruth, options),
  };
}

/** @param method calibration method; undefined selects the best one in cross-validation */
function calibrateTier(
  tier: UncalibratedTier,
  { labels, groundTruth }: LabeledSamples,
  fit: readonly number[],
  method: CalibrationMethod | undefined,
): CalibratedTier {
  const samples = fit.map((sample) => ({
    outputs: tier.outputs[sample] ?? {},
    truth: groundTruth[sample] ?? "",
  }));
  const { chosen, trials } =
    method === undefined
      ? crossValidateMethods(tier.calibration, samples, labels)
      : { chosen: method, trials: [] };
  const calibration = fitCalibration(chosen, tier.calibration, samples, labels);
  const answers = applyCalibration(
    tier.outputs.map((outputs) => ({ outputs })),
    calibration,
    labels,
  );
  return { id: tier.id, profile: tier.profile, answers, calibration, method: chosen, trials };
}

/**
 * Selects exits for a saturated next tier by a separate test at the same delta. The path is made to
 * descend in every tier, so that its thresholds after `usual` are at most `usual`.
 */
function selectSaturatedThresholds(
  tiers: readonly ProfiledTier[],
  usual: Thresholds,
  path: readonly Thresholds[],
  test: readonly number[],
  groundTruth: readonly string[],
  options: CalibrateCascadeOptions,
): CalibratedCascade["whenSaturated"] {
  const { saturatedEpsilon: epsilon } = options;
  if (epsilon === undefined) return undefined;
  const descending = path.map((_, end) =>
    usual.map((_, tier) =>
      Math.min(...path.slice(0, end + 1).map((thresholds) => thresholds[tier] ?? 1)),
    ),
  );
  const control = controlRisk(tiers, descending, test, groundTruth, { ...options, epsilon });
  const lower = control.path.filter(
    ({ isValid, thresholds }) =>
      isValid && thresholds.every((confidence, tier) => confidence <= (usual[tier] ?? 0)),
  );
  // All valid thresholds hold simultaneously, so that any of them may be selected.
  const [cheapest] = lower.toSorted((a, b) => a.meanCost - b.meanCost);
  return cheapest && { epsilon, thresholds: cheapest.thresholds };
}

function riskNotReachedError(
  control: RiskControl,
  split: SampleSplit,
  bound: RiskBound & { readonly deadlineMs: number },
) {
  const { samples, epsilon } = findAttainableBound(control, bound);
  const needed = Math.ceil(samples / (1 - FIT_FRACTION));
  const all = split.fit.length + split.test.length;
  return toolchainErrors.riskNotReached(
    bound,
    {
      tested: split.test.length,
      all,
      deadlineMs: control.path.length === 0 ? bound.deadlineMs : undefined,
    },
    { samples: needed > all ? needed : undefined, epsilon },
  );
}

function buildRiskRecord(
  tiers: readonly ProfiledTier[],
  thresholds: Thresholds,
  { test }: SampleSplit,
  groundTruth: readonly string[],
  { what, epsilon, delta, deadlineMs }: CalibrateCascadeOptions,
): RiskGuarantee {
  const { counts } = simulateCascade(tiers, thresholds, test, groundTruth, what, deadlineMs);
  const isLastTierOnly = thresholds.every((confidence) => confidence === 1);
  const method = isLastTierOnly
    ? "last tier only"
    : `learn-then-test, fixed sequence, ${what === "disagreement" ? "exact binomial" : "Berger-Boos trinomial"}`;
  return {
    what,
    epsilon,
    delta,
    method,
    samples: counts.samples,
    empiricalRisk: Number(empiricalRisk(counts).toFixed(6)),
  };
}
