// A cascade calibrated: confidences that fit, on one part of the samples; exits for a stated risk, on the other.

import { toolchainErrors } from "../errors.ts";
import type { CalibrationParameters } from "../../cascade/calibration.ts";
import type { NamedTensors } from "../../core/tensor.ts";
import type { RiskGuarantee } from "../../registry/manifest.ts";
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
import { buildThresholdPath } from "./threshold-path.ts";
import {
  type TierProfile,
  type ProfiledTier,
  type Thresholds,
  simulateCascade,
} from "./simulate-cascade.ts";

export interface UncalibratedTier {
  readonly id: string;
  /** What it has now. */
  readonly calibration: CalibrationParameters;
  /** Of its graph, one per sample. */
  readonly outputs: readonly NamedTensors[];
  readonly profile: TierProfile;
}

export interface LabeledSamples {
  /** In the logits' order. */
  readonly labels: readonly string[];
  /** The right label of each sample. */
  readonly groundTruth: readonly string[];
}

export interface CalibrateCascadeOptions extends RiskControlOptions {
  /** The best in cross-validation where it is left out; or one for each tier. */
  readonly method?: CalibrationMethod | readonly CalibrationMethod[] | undefined;
  /** By a shuffle with `seed` where left out. */
  readonly split?: SampleSplit | undefined;
  readonly seed?: number | undefined;
  /** The same kind of risk, at the same delta, for exits that hold only while the next tier is saturated: above `epsilon`. */
  readonly saturatedEpsilon?: number | undefined;
  /** Where the bound cannot be reached, let the last tier answer everything. */
  readonly allowLastTierOnly?: boolean;
}

export interface CalibratedTier extends ProfiledTier {
  readonly calibration: CalibrationParameters;
  readonly method: CalibrationMethod;
  /** Of all methods; empty where one was named. */
  readonly trials: readonly CrossValidationScore[];
}

/** Positions of samples. */
export interface SampleSplit {
  /** What calibrations are fitted to, and the path of thresholds is learnt from. */
  readonly fit: readonly number[];
  /** What the path is tested on. */
  readonly test: readonly number[];
}

export interface CalibratedCascade {
  /** With answers to all samples, by the new calibrations. */
  readonly tiers: readonly CalibratedTier[];
  readonly split: SampleSplit;
  readonly riskControl: RiskControl;
  readonly thresholds: Thresholds;
  /** For when the next tier is saturated: none above `thresholds`. Undefined where not asked for, or not reached. */
  readonly whenSaturated?: { readonly epsilon: number; readonly thresholds: Thresholds };
  /** Undefined for a single tier, which has no exit. */
  readonly risk: RiskGuarantee | undefined;
}

const FIT_FRACTION = 0.3;
const DEFAULT_SEED = 1;

/** @param samples positions, in the order in which they are to be shared out @throws risk_not_reached */
export function splitSamples(samples: readonly number[]): SampleSplit {
  const count = Math.round(FIT_FRACTION * samples.length);
  return { fit: samples.slice(0, count), test: samples.slice(count) };
}

export const shuffleSplit = (samples: number, seed = DEFAULT_SEED): SampleSplit =>
  splitSamples(shuffle([...Array(samples).keys()], seededRandom(seed)));

/**
 * @param tiers in the cascade's order, each having answered every sample
 * @throws risk_not_reached with what would reach it
 */
export function calibrateCascade(
  tiers: readonly UncalibratedTier[],
  { labels, groundTruth: truth }: LabeledSamples,
  options: CalibrateCascadeOptions,
): CalibratedCascade {
  const {
    allowLastTierOnly: orTopOnly = false,
    split: parts = shuffleSplit(truth.length, options.seed),
  } = options;
  const calibrated = tiers.map((tier, position): CalibratedTier => {
    const samples = parts.fit.map((sample) => ({
      outputs: tier.outputs[sample] ?? {},
      truth: truth[sample] ?? "",
    }));
    const named = typeof options.method === "string" ? options.method : options.method?.[position];
    const { chosen, trials } =
      named === undefined
        ? crossValidateMethods(tier.calibration, samples, labels)
        : { chosen: named, trials: [] };
    const calibration = fitCalibration(chosen, tier.calibration, samples, labels);
    const answers = applyCalibration(
      tier.outputs.map((outputs) => ({ outputs })),
      calibration,
      labels,
    );
    return { id: tier.id, profile: tier.profile, answers, calibration, method: chosen, trials };
  });
  if (tiers.length < 2)
    return {
      tiers: calibrated,
      split: parts,
      riskControl: { path: [], chosen: undefined },
      thresholds: [],
      risk: undefined,
    };

  const order = buildThresholdPath(calibrated, parts.fit, truth, options);
  const control = controlRisk(calibrated, order, parts.test, truth, options);
  if (control.chosen === undefined && !orTopOnly)
    throw riskNotReachedError(control, parts, options);
  const thresholds = control.chosen?.thresholds ?? tiers.slice(1).map(() => 1);
  const whenSaturated = selectSaturatedThresholds(
    calibrated,
    thresholds,
    order,
    parts.test,
    truth,
    options,
  );
  return {
    tiers: calibrated,
    split: parts,
    riskControl: control,
    thresholds,
    ...(whenSaturated === undefined ? {} : { whenSaturated }),
    risk: buildRiskRecord(calibrated, thresholds, parts, truth, options),
  };
}

/**
 * A test of its own at the same delta, along the same path made to descend in every tier at once, so that what lies behind `usual` is below it.
 */
function selectSaturatedThresholds(
  tiers: readonly ProfiledTier[],
  usual: Thresholds,
  order: readonly Thresholds[],
  test: readonly number[],
  truth: readonly string[],
  options: CalibrateCascadeOptions,
): CalibratedCascade["whenSaturated"] {
  const { saturatedEpsilon: epsilon } = options;
  if (epsilon === undefined) return undefined;
  const descending = order.map((_, end) =>
    usual.map((_, tier) =>
      Math.min(...order.slice(0, end + 1).map((thresholds) => thresholds[tier] ?? 1)),
    ),
  );
  const { path } = controlRisk(tiers, descending, test, truth, { ...options, epsilon });
  const lower = path.filter(
    ({ isValid, thresholds }) =>
      isValid && thresholds.every((confidence, tier) => confidence <= (usual[tier] ?? 0)),
  );
  const [cheapest] = lower.toSorted((a, b) => a.meanCost - b.meanCost); // all that pass hold at once: any of them may be taken
  return cheapest && { epsilon, thresholds: cheapest.thresholds };
}

function riskNotReachedError(
  control: RiskControl,
  parts: SampleSplit,
  bound: RiskBound & { readonly deadlineMs: number },
) {
  const { samples, epsilon } = findAttainableBound(control, bound);
  const needed = Math.ceil(samples / (1 - FIT_FRACTION));
  const all = parts.fit.length + parts.test.length;
  return toolchainErrors.riskNotReached(
    bound,
    {
      tested: parts.test.length,
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
  truth: readonly string[],
  { what, epsilon, delta, deadlineMs }: CalibrateCascadeOptions,
): RiskGuarantee {
  const { counts: losses } = simulateCascade(tiers, thresholds, test, truth, what, deadlineMs);
  const isTopOnly = thresholds.every((confidence) => confidence === 1);
  const method = isTopOnly
    ? "last tier only"
    : `learn-then-test, fixed sequence, ${what === "disagreement" ? "exact binomial" : "Berger-Boos trinomial"}`;
  return {
    what,
    epsilon,
    delta,
    method,
    samples: losses.samples,
    empiricalRisk: Number(empiricalRisk(losses).toFixed(6)),
  };
}
