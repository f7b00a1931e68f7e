// A calibrated project's report: what is published with the version and drawn by the playground (protocol/model-report.ts).

import type { ModelReport } from "../../protocol/model-report.ts";
import { canonicalJson } from "../../registry/canonical-json.ts";
import type { ClassificationProject } from "../../registry/manifest.ts";
import { sha256HexSync } from "../sha256-sync.ts";
import type { CalibrationCurves, CascadePoint } from "./calibration-curves.ts";

/** Enough for a curve, and a few kilobytes. */
const MAX_POINTS = 48;

type Tier = Pick<ClassificationProject["tiers"][number], "graph" | "calibration">;

/** Changes with what a report is about. */
export const computeTierDigest = ({ calibration }: Tier, graph: Uint8Array): string =>
  sha256HexSync(graph, canonicalJson(calibration));

/** @param fileOf the bytes of a file that the project names */
export function buildModelReport(
  { model, tiers, risk }: ClassificationProject,
  { tested, reliability, cascade, chosen, alone }: CalibrationCurves,
  fileOf: (path: string) => Uint8Array,
): ModelReport {
  const points =
    chosen === undefined
      ? []
      : [...downsamplePoints(cascade), chosen].toSorted((a, b) => a.coverage - b.coverage);
  return {
    schemaVersion: 1,
    model,
    tested,
    ...(risk === undefined
      ? {}
      : { risk: { what: risk.what, epsilon: risk.epsilon, delta: risk.delta } }),
    tiers: tiers.map((tier, position) => {
      const { expectedCalibrationError = 0, bins = [] } = reliability[position]?.after ?? {};
      return {
        id: tier.id,
        place: tier.place,
        digest: computeTierDigest(tier, fileOf(tier.graph)),
        accuracy: roundTo4Decimals(alone[position]?.accuracy ?? 0),
        expectedCalibrationError: roundTo4Decimals(expectedCalibrationError),
        bins: bins.map(({ samples, meanConfidence, accuracy }) => ({
          samples,
          meanConfidence: roundTo4Decimals(meanConfidence),
          accuracy: roundTo4Decimals(accuracy),
        })),
      };
    }),
    points: points
      .filter((point, index) => !areEqual(point.thresholds, points[index - 1]?.thresholds))
      .map(({ thresholds, shares, risk, accuracy, holds }) => ({
        thresholds: [...thresholds],
        shares: shares.map(roundTo4Decimals),
        risk: roundTo4Decimals(risk),
        accuracy: roundTo4Decimals(accuracy),
        holds,
      })),
  };
}

/** Thresholds stay as they are: they are compared with confidences. */
const roundTo4Decimals = (value: number): number => Number(value.toFixed(4));

const areEqual = (some: readonly number[], others: readonly number[] | undefined): boolean =>
  some.every((value, index) => value === others?.[index]);

/** The first and the last always. */
function downsamplePoints(points: readonly CascadePoint[]): CascadePoint[] {
  const step = Math.max(1, (points.length - 1) / (MAX_POINTS - 1));
  return Array.from(
    { length: Math.min(points.length, MAX_POINTS) },
    (_, index) => points[Math.round(index * step)],
  ).filter((point) => point !== undefined);
}
