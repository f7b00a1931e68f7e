// Builds the report of a calibrated project, which is published with the version and drawn by the
// playground (protocol/model-report.ts).

import type { ModelReport } from "../../protocol/model-report.ts";
import { canonicalJson } from "../../registry/canonical-json.ts";
import type { ClassificationProject } from "../../registry/manifest.ts";
import { roundTo4Decimals } from "../round-to-4-decimals.ts";
import { sha256HexSync } from "../sha256-sync.ts";
import type { CalibrationCurves, CascadePoint } from "./calibration-curves.ts";

/** Maximum number of points: enough for a curve, in a few kilobytes. */
const MAX_POINTS = 48;

type Tier = Pick<ClassificationProject["tiers"][number], "graph" | "calibration">;

/** Digest of a tier; a report is stale if it differs. */
export const computeTierDigest = ({ calibration }: Tier, graph: Uint8Array): string =>
  sha256HexSync(graph, canonicalJson(calibration));

/** @param readFile returns the content of one of the project's files */
export function buildModelReport(
  { model, tiers, risk }: ClassificationProject,
  { tested, reliability, cascade, chosen, alone }: CalibrationCurves,
  readFile: (path: string) => Uint8Array,
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
        digest: computeTierDigest(tier, readFile(tier.graph)),
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

const areEqual = (a: readonly number[], b: readonly number[] | undefined): boolean =>
  a.every((value, index) => value === b?.[index]);

/** Selects evenly spaced points, including the first and the last. */
function downsamplePoints(points: readonly CascadePoint[]): CascadePoint[] {
  const step = Math.max(1, (points.length - 1) / (MAX_POINTS - 1));
  return Array.from(
    { length: Math.min(points.length, MAX_POINTS) },
    (_, index) => points[Math.round(index * step)],
  ).filter((point) => point !== undefined);
}
