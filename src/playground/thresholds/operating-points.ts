// Operating points: coverage and region share of a report's thresholds.

import type { ModelDetail } from "../../protocol/model-detail.ts";
import type { ModelReport } from "../../protocol/model-report.ts";

export type OperatingPoint = ModelReport["points"][number];

/** Index of the served point, or of the nearest one if the exits were edited manually. */
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

/** Share of inputs that are answered before the last tier. */
export const coverageOf = ({ shares }: OperatingPoint): number =>
  shares.slice(0, -1).reduce((sum, share) => sum + share, 0);

export const regionShareOf = (
  { shares }: OperatingPoint,
  { tiers }: Pick<ModelReport, "tiers">,
): number =>
  shares.reduce((sum, share, tier) => sum + (tiers[tier]?.place === "region" ? share : 0), 0);

/** Formats `0.7105`, or `edge 0.9, edge-large 0.7` if there are several exits. */
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
