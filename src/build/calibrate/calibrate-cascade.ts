// A cascade calibrated: confidences that fit, on one part of the samples; exits for a stated risk, on the other.

import type { CalibrationParameters } from "../../cascade/calibration.ts";
import { errors } from "../../core/errors.ts";
import type { NamedTensors } from "../../core/tensor.ts";
import type { RiskRecord } from "../../registry/manifest.ts";
import { seededRandom, shuffle } from "../seeded-random.ts";
import { type ControlOptions, controlRisk, reachable, type RiskBound, type RiskControl } from "./control-risk.ts";
import { answersOf, fitCalibration, type Method, type Trial, tryMethods } from "./fit-calibration.ts";
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
  readonly seed?: number;
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

/**
 * @param tiers in the cascade's order, each having answered every sample
 * @throws risk_not_reached with what would reach it
 */
export function calibrateCascade(tiers: readonly AskedTier[], { labels, truth }: Labelled, options: CalibrateOptions): CalibratedCascade {
  const { seed = SEED, orTopOnly = false, parts = partsOf(shuffle([...truth.keys()], seededRandom(seed))) } = options;
  const calibrated = tiers.map((tier, position): CalibratedTier => {
    const samples = parts.fit.map((sample) => ({ outputs: tier.outputs[sample] ?? {}, truth: truth[sample] ?? "" }));
    const named = typeof options.method === "string" ? options.method : options.method?.[position];
    const { chosen, trials } = named === undefined ? tryMethods(tier.calibration, samples, labels) : { chosen: named, trials: [] };
    const calibration = fitCalibration(chosen, tier.calibration, samples, labels);
    const answers = answersOf(tier.outputs.map((outputs) => ({ outputs })), calibration, labels);
    return { id: tier.id, price: tier.price, answers, calibration, method: chosen, trials };
  });
  if (tiers.length < 2) return { tiers: calibrated, parts, control: { path: [], chosen: undefined }, thresholds: [], risk: undefined };

  const control = controlRisk(calibrated, orderThresholds(calibrated, parts.fit, truth, options), parts.test, truth, options);
  if (control.chosen === undefined && !orTopOnly) throw notReached(control, parts, options);
  const thresholds = control.chosen?.thresholds ?? tiers.slice(1).map(() => 1);
  return { tiers: calibrated, parts, control, thresholds, risk: recordOf(calibrated, thresholds, parts, truth, options) };
}

function notReached(control: RiskControl, parts: Parts, bound: RiskBound & { readonly deadlineMs: number }) {
  const { samples, epsilon } = reachable(control, bound);
  const needed = Math.ceil(samples / (1 - FIT_SHARE));
  const all = parts.fit.length + parts.test.length;
  return errors.riskNotReached(bound, { tested: parts.test.length, all, deadlineMs: control.path.length === 0 ? bound.deadlineMs : undefined }, { samples: needed > all ? needed : undefined, epsilon });
}

function recordOf(tiers: readonly PricedTier[], thresholds: Thresholds, { test }: Parts, truth: readonly string[], { what, epsilon, delta, deadlineMs }: CalibrateOptions): RiskRecord {
  const { losses } = walk(tiers, thresholds, test, truth, what, deadlineMs);
  const isTopOnly = thresholds.every((confidence) => confidence === 1);
  const method = isTopOnly ? "last tier only" : `learn-then-test, fixed sequence, ${what === "disagreement" ? "exact binomial" : "Berger-Boos trinomial"}`;
  return { what, epsilon, delta, method, samples: losses.samples, empiricalRisk: Number(empiricalRisk(losses).toFixed(6)) };
}
