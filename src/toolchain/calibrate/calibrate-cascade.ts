// A cascade calibrated: confidences that fit, on one part of the samples; exits for a stated risk, on the other.

import { toolchainErrors } from "../errors.ts";
import type { CalibrationParameters } from "../../cascade/calibration.ts";
import type { NamedTensors } from "../../core/tensor.ts";
import type { RiskRecord } from "../../registry/manifest.ts";
import { seededRandom, shuffle } from "../seeded-random.ts";
import {
  type ControlOptions,
  controlRisk,
  reachable,
  type RiskBound,
  type RiskControl,
} from "./control-risk.ts";
import {
  answersOf,
  fitCalibration,
  type Method,
  type Trial,
  tryMethods,
} from "./fit-calibration.ts";
import { empiricalRisk } from "./p-values.ts";
import { orderThresholds } from "./threshold-path.ts";
import { type Price, type PricedTier, type Thresholds, walk } from "./walk.ts";

export interface AskedTier {
  readonly id: string;
  /** What it has now. */
  readonly calibration: CalibrationParameters;
  /** Of its graph, one per sample. */
  readonly outputs: readonly NamedTensors[];
  readonly price: Price;
}

export interface Labelled {
  /** In the logits' order. */
  readonly labels: readonly string[];
  /** The right label of each sample. */
  readonly truth: readonly string[];
}

export interface CalibrateOptions extends ControlOptions {
  /** The best in cross-validation where it is left out; or one for each tier. */
  readonly method?: Method | readonly Method[] | undefined;
  /** By a shuffle with `seed` where left out. */
  readonly parts?: Parts | undefined;
  readonly seed?: number | undefined;
  /** The same kind of risk, at the same delta, for exits that hold only while the next tier is saturated: above `epsilon`. */
  readonly saturatedEpsilon?: number | undefined;
  /** Where the bound cannot be reached, let the last tier answer everything. */
  readonly orTopOnly?: boolean;
}

export interface CalibratedTier extends PricedTier {
  readonly calibration: CalibrationParameters;
  readonly method: Method;
  /** Of all methods; empty where one was named. */
  readonly trials: readonly Trial[];
}

/** Positions of samples. */
export interface Parts {
  /** What calibrations are fitted to, and the path of thresholds is learnt from. */
  readonly fit: readonly number[];
  /** What the path is tested on. */
  readonly test: readonly number[];
}

export interface CalibratedCascade {
  /** With answers to all samples, by the new calibrations. */
  readonly tiers: readonly CalibratedTier[];
  readonly parts: Parts;
  readonly control: RiskControl;
  readonly thresholds: Thresholds;
  /** For when the next tier is saturated: none above `thresholds`. Undefined where not asked for, or not reached. */
  readonly whenSaturated?: { readonly epsilon: number; readonly thresholds: Thresholds };
  /** Undefined for a single tier, which has no exit. */
  readonly risk: RiskRecord | undefined;
}

const FIT_SHARE = 0.3;
const SEED = 1;

/** @param samples positions, in the order in which they are to be shared out @throws risk_not_reached */
export function partsOf(samples: readonly number[]): Parts {
  const count = Math.round(FIT_SHARE * samples.length);
  return { fit: samples.slice(0, count), test: samples.slice(count) };
}

export const shuffledParts = (samples: number, seed = SEED): Parts =>
  partsOf(shuffle([...Array(samples).keys()], seededRandom(seed)));

/**
 * @param tiers in the cascade's order, each having answered every sample
 * @throws risk_not_reached with what would reach it
 */
export function calibrateCascade(
  tiers: readonly AskedTier[],
  { labels, truth }: Labelled,
  options: CalibrateOptions,
): CalibratedCascade {
  const { orTopOnly = false, parts = shuffledParts(truth.length, options.seed) } = options;
  const calibrated = tiers.map((tier, position): CalibratedTier => {
    const samples = parts.fit.map((sample) => ({
      outputs: tier.outputs[sample] ?? {},
      truth: truth[sample] ?? "",
    }));
    const named = typeof options.method === "string" ? options.method : options.method?.[position];
    const { chosen, trials } =
      named === undefined
        ? tryMethods(tier.calibration, samples, labels)
        : { chosen: named, trials: [] };
    const calibration = fitCalibration(chosen, tier.calibration, samples, labels);
    const answers = answersOf(
      tier.outputs.map((outputs) => ({ outputs })),
      calibration,
      labels,
    );
    return { id: tier.id, price: tier.price, answers, calibration, method: chosen, trials };
  });
  if (tiers.length < 2)
    return {
      tiers: calibrated,
      parts,
      control: { path: [], chosen: undefined },
      thresholds: [],
      risk: undefined,
    };

  const order = orderThresholds(calibrated, parts.fit, truth, options);
  const control = controlRisk(calibrated, order, parts.test, truth, options);
  if (control.chosen === undefined && !orTopOnly) throw notReached(control, parts, options);
  const thresholds = control.chosen?.thresholds ?? tiers.slice(1).map(() => 1);
  const whenSaturated = exitsWhenSaturated(
    calibrated,
    thresholds,
    order,
    parts.test,
    truth,
    options,
  );
  return {
    tiers: calibrated,
    parts,
    control,
    thresholds,
    ...(whenSaturated === undefined ? {} : { whenSaturated }),
    risk: recordOf(calibrated, thresholds, parts, truth, options),
  };
}

/**
 * A test of its own at the same delta, along the same path made to descend in every tier at once, so that what lies behind `usual` is below it.
 */
function exitsWhenSaturated(
  tiers: readonly PricedTier[],
  usual: Thresholds,
  order: readonly Thresholds[],
  test: readonly number[],
  truth: readonly string[],
  options: CalibrateOptions,
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

function notReached(
  control: RiskControl,
  parts: Parts,
  bound: RiskBound & { readonly deadlineMs: number },
) {
  const { samples, epsilon } = reachable(control, bound);
  const needed = Math.ceil(samples / (1 - FIT_SHARE));
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

function recordOf(
  tiers: readonly PricedTier[],
  thresholds: Thresholds,
  { test }: Parts,
  truth: readonly string[],
  { what, epsilon, delta, deadlineMs }: CalibrateOptions,
): RiskRecord {
  const { losses } = walk(tiers, thresholds, test, truth, what, deadlineMs);
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
