// Tiers that are made up: how sure each is says how often it is right, as far as it is told to.
import type { Answer } from "../../../src/cascade/calibration.ts";
import type { AskedTier, Labelled } from "../../../src/toolchain/calibrate/calibrate-cascade.ts";
import type { PricedTier } from "../../../src/toolchain/calibrate/walk.ts";
import { createRandom } from "../../bench/lib/random.ts";

export const LABELS = ["a", "b", "c"];

/** @param sharpness by tier: the larger, the more often it is right; each tier is twice as sure as it should be */
export function madeCascade(
  samples: number,
  sharpness: readonly number[],
  seed = 5,
): { readonly tiers: readonly AskedTier[]; readonly labelled: Labelled } {
  const { next } = createRandom(seed);
  const truth = Array.from({ length: samples }, () => LABELS[Math.floor(3 * next())] ?? "a");
  const tiers = sharpness.map((sharp, position): AskedTier => ({
    id: `tier-${position}`,
    calibration: { temperature: 1 },
    price: { cost: 10 ** position, meanMs: 10 ** position, p99Ms: 2 * 10 ** position },
    outputs: truth.map((label) => {
      const evidence = sharp * next();
      // -log(-log u) is Gumbel noise: the largest of evidence and noise is the true label with the softmax's chance
      const logits = LABELS.map(
        (one) => 2 * ((one === label ? evidence : 0) - Math.log(-Math.log(Math.max(1e-9, next())))),
      );
      return { logits: { datatype: "FP32", shape: [1, 3], data: Float32Array.from(logits) } };
    }),
  }));
  return { tiers, labelled: { labels: LABELS, truth } };
}

export const answer = (label: string, confidence: number, outOfScope = false): Answer => ({
  label,
  confidence,
  outOfScope,
  ranking: [],
});

export const priced = (id: string, cost: number, answers: readonly Answer[]): PricedTier => ({
  id,
  answers,
  price: { cost, meanMs: cost, p99Ms: 2 * cost },
});
