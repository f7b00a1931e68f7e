// Isotonic regression by pooling adjacent violators (Ayer et al. 1955), as Zadrozny and Elkan 2002 calibrate with it.

import type { IsotonicMap } from "../../cascade/calibration.ts";

export interface ConfidenceSample {
  readonly confidence: number;
  readonly isCorrect: boolean;
}

interface Block {
  readonly confidenceSum: number;
  readonly right: number;
  readonly count: number;
}

/** @returns blocks of adjacent confidences, whose shares of right answers ascend */
export function poolAdjacentViolators(judged: readonly ConfidenceSample[]): Block[] {
  const blocks: Block[] = [];
  for (const { confidence, isCorrect: isRight } of judged.toSorted(
    (a, b) => a.confidence - b.confidence,
  )) {
    let block: Block = { confidenceSum: confidence, right: Number(isRight), count: 1 };
    for (
      let before = blocks.at(-1);
      before !== undefined &&
      (shareOf(before) >= shareOf(block) || meanOf(before) === meanOf(block));
      before = blocks.at(-1)
    ) {
      blocks.pop();
      block = {
        confidenceSum: before.confidenceSum + block.confidenceSum,
        right: before.right + block.right,
        count: before.count + block.count,
      };
    }
    blocks.push(block);
  }
  return blocks;
}

const shareOf = ({ right, count }: Block) => right / count;
const meanOf = ({ confidenceSum, count }: Block) => confidenceSum / count;
const roundTo6Decimals = (value: number) => Math.round(value * 1e6) / 1e6;

/**
 * A line through the blocks' means. No answer is made certain, and beyond the last block the line rises a little on to 1:
 * the surest answers would otherwise all be equal, and an exit could take all of them or none.
 */
export function fitIsotonic(judged: readonly ConfidenceSample[]): IsotonicMap {
  const least = 1 / (2 * judged.length + 2);
  const points = new Map<number, number>();
  for (const block of poolAdjacentViolators(judged))
    points.set(
      roundTo6Decimals(meanOf(block)),
      roundTo6Decimals(Math.min(1 - least, Math.max(least, shareOf(block)))),
    );
  const last = [...points.values()].at(-1) ?? 1;
  points.set(1, Math.max(last, roundTo6Decimals((1 + last) / 2)));
  return { confidence: [...points.keys()], calibrated: [...points.values()] };
}
