// The thresholds that a report knows of, and what each would change.

import type { ModelDetail } from "../../protocol/model-detail.ts";
import type { ModelReport } from "../../protocol/model-report.ts";

export type OperatingPoint = ModelReport["points"][number];

/** The served point's position; where the exits were changed by hand, the nearest one's. */
export function findServedPoint(
  { points }: Pick<ModelReport, "points">,
  { tiers }: Pick<ModelDetail, "tiers">,
): number {
  const served = tiers.flatMap(({ exitConfidence }) => exitConfidence ?? []);
  const distances = points.map(({ thresholds }) =>
    thresholds.reduce((sum, threshold, tier) => sum + Math.abs(threshold - (served[tier] ?? 0)), 0),
  );
  return Math.max(0, distances.indexOf(Math.min(...distances)));
}

/** What a tier before the last answers. */
export const coverageOf = ({ shares }: OperatingPoint): number =>
  shares.slice(0, -1).reduce((sum, share) => sum + share, 0);

export const regionShareOf = (
  { shares }: OperatingPoint,
  { tiers }: Pick<ModelReport, "tiers">,
): number =>
  shares.reduce((sum, share, tier) => sum + (tiers[tier]?.place === "region" ? share : 0), 0);

/** `0.7105`, or `edge 0.9, edge-large 0.7` where there are several exits. */
export function formatThresholds(
  { thresholds }: OperatingPoint,
  { tiers }: Pick<ModelReport, "tiers">,
): string {
  const [only] = thresholds;
  return thresholds.length === 1 && only !== undefined
    ? only.toFixed(4)
    : thresholds
        .map((threshold, tier) => `${tiers[tier]?.id ?? ""} ${threshold.toFixed(4)}`)
        .join(", ");
}
