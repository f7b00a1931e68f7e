// Creates synthetic tiers whose confidence determines their accuracy.
import type { TierPrediction } from "../../../src/cascade/calibration.ts";
import type {
  UncalibratedTier,
  LabeledSamples,
} from "../../../src/toolchain/calibrate/calibrate-cascade.ts";
import type { ProfiledTier } from "../../../src/toolchain/calibrate/simulate-cascade.ts";
import { createRandom } from "../../bench/lib/random.ts";

export const LABELS = ["a", "b", "c"];

/**
 * @param sharpness accuracy of each tier, higher is better; all tiers are overconfident with a
 *   temperature of 2
 */
export function createSyntheticCascade(
  samples: number,
  sharpness: readonly number[],
  seed = 5,
): { readonly tiers: readonly UncalibratedTier[]; readonly labeled: LabeledSamples } {
  const { next } = createRandom(seed);
  const groundTruth = Array.from({ length: samples }, () => LABELS[Math.floor(3 * next())] ?? "a");
  const tiers = sharpness.map((sharp, position): UncalibratedTier => ({
    id: `tier-${position}`,
    calibration: { temperature: 1 },
    profile: { cost: 10 ** position, meanMs: 10 ** position, p99Ms: 2 * 10 ** position },
    outputs: groundTruth.map((label) => {
      const evidence = sharp * next();
      // -log(-log u) is Gumbel noise, with which the maximum is the true label with its softmax
      // probability.
      const logits = LABELS.map(
        (candidate) =>
          2 * ((candidate === label ? evidence : 0) - Math.log(-Math.log(Math.max(1e-9, next())))),
      );
      return { logits: { datatype: "FP32", shape: [1, 3], data: Float32Array.from(logits) } };
    }),
  }));
  return { tiers, labeled: { labels: LABELS, groundTruth } };
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
