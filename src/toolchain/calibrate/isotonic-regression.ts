// Isotonic regression by pooling adjacent violators (Ayer et al. 1955), used for calibration by
// Zadrozny and Elkan 2002.

import type { IsotonicMap } from "../../cascade/calibration.ts";

export interface ConfidenceSample {
  readonly confidence: number;
  readonly isCorrect: boolean;
}

interface Block {
  readonly confidenceSum: number;
  readonly correct: number;
  readonly count: number;
}

/** @returns blocks of adjacent confidences with ascending accuracy */
export function poolAdjacentViolators(samples: readonly ConfidenceSample[]): Block[] {
  const blocks: Block[] = [];
  for (const { confidence, isCorrect } of samples.toSorted((a, b) => a.confidence - b.confidence)) {
    let block: Block = { confidenceSum: confidence, correct: Number(isCorrect), count: 1 };
    for (
      let before = blocks.at(-1);
      before !== undefined &&
      (accuracyOf(before) >= accuracyOf(block) || meanOf(before) === meanOf(block));
      before = blocks.at(-1)
    ) {
      blocks.pop();
      block = {
        confidenceSum: before.confidenceSum + block.confidenceSum,
        correct: before.correct + block.correct,
        count: before.count + block.count,
      };
    }
    blocks.push(block);
  }
  return blocks;
}

const accuracyOf = ({ correct, count }: Block) => correct / count;
const meanOf = ({ confidenceSum, count }: Block) => confidenceSum / count;
const roundTo6Decimals = (value: number) => Math.round(value * 1e6) / 1e6;

/**
 * Interpolates linearly between the blocks' means. No confidence becomes 0 or 1 there. After the
 * last block, the line keeps rising slightly. Otherwise the highest confidences would be equal, and
 * an exit could accept all of them or none.
 */
export function fitIsotonic(samples: readonly ConfidenceSample[]): IsotonicMap {
  const margin = 1 / (2 * samples.length + 2);
  const points = new Map<number, number>();
  for (const block of poolAdjacentViolators(samples))
    points.set(
      roundTo6Decimals(meanOf(block)),
      roundTo6Decimals(Math.min(1 - margin, Math.max(margin, accuracyOf(block)))),
    );
  const last = [...points.values()].at(-1) ?? 1;
  points.set(1, Math.max(last, roundTo6Decimals((1 + last) / 2)));
  return { confidence: [...points.keys()], calibrated: [...points.values()] };
}
