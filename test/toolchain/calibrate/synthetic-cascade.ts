// Tiers that are made up: how sure each is says how often it is right, as far as it is told to.
import type { TierPrediction } from "../../../src/cascade/calibration.ts";
import type {
  UncalibratedTier,
  LabeledSamples,
} from "../../../src/toolchain/calibrate/calibrate-cascade.ts";
import type { ProfiledTier } from "../../../src/toolchain/calibrate/simulate-cascade.ts";
import { createRandom } from "../../bench/lib/random.ts";

export const LABELS = ["a", "b", "c"];

/** @param sharpness by tier: the larger, the more often it is right; each tier is twice as sure as it should be */
export function createSyntheticCascade(
  samples: number,
  sharpness: readonly number[],
  seed = 5,
): { readonly tiers: readonly UncalibratedTier[]; readonly labelled: LabeledSamples } {
  const { next } = createRandom(seed);
  const truth = Array.from({ length: samples }, () => LABELS[Math.floor(3 * next())] ?? "a");
  const tiers = sharpness.map((sharp, position): UncalibratedTier => ({
    id: `tier-${position}`,
    calibration: { temperature: 1 },
    profile: { cost: 10 ** position, meanMs: 10 ** position, p99Ms: 2 * 10 ** position },
    outputs: truth.map((label) => {
      const evidence = sharp * next();
      // -log(-log u) is Gumbel noise: the largest of evidence and noise is the true label with the softmax's chance
      const logits = LABELS.map(
        (one) => 2 * ((one === label ? evidence : 0) - Math.log(-Math.log(Math.max(1e-9, next())))),
      );
      return { logits: { datatype: "FP32", shape: [1, 3], data: Float32Array.from(logits) } };
    }),
  }));
  return { tiers, labelled: { labels: LABELS, groundTruth: truth } };
}

export const createAnswer = (
  label: string,
  confidence: number,
  outOfScope = false,
): TierPrediction => ({
  label,
  confidence,
  outOfScope,
  ranking: [],
});

export const createProfiledTier = (
  id: string,
  cost: number,
  answers: readonly TierPrediction[],
): ProfiledTier => ({
  id,
  answers,
  profile: { cost, meanMs: cost, p99Ms: 2 * cost },
});
