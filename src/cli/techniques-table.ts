// Techniques table: shows each candidate's figures relative to the reference, and why a candidate was rejected.

import type { BuiltTier } from "../toolchain/build-plan/build-tier.ts";
import type { CandidateEvaluation } from "../toolchain/evaluate/evaluate-candidates.ts";
import { formatBytes, renderTable } from "./output.ts";

export function renderTechniquesTable(tiers: readonly BuiltTier[]): string {
  return tiers.map(renderTierTable).join("\n\n");
}

function renderTierTable({ tier, evaluations, chosen }: BuiltTier): string {
  const runtimes = Object.keys(evaluations[0]?.measured?.latency ?? {});
  const header = [
    "CANDIDATE",
    "ACCURACY",
    "LOSS",
    "AGREES",
    "SQNR",
    "BYTES",
    "GZIP",
    ...runtimes.flatMap((name) => [`${name} P50 MS`, "RATIO"]),
    "VERDICT",
  ];
  return `${tier}\n${renderTable([header.map((cell) => cell.toUpperCase()), ...evaluations.map((evaluation) => row(evaluation, runtimes, evaluation.name === chosen.name))])}`;
}

function row(
  { name, bytes, gzipBytes, refused, measured }: CandidateEvaluation,
  runtimes: readonly string[],
  isChosen: boolean,
): string[] {
  const verdict =
    refused.length > 0 ? `rejected: ${refused.join("; ")}` : isChosen ? "selected" : "";
  const figures =
    measured === undefined
      ? ["", "", "", ""]
      : [
          `${(100 * measured.accuracy).toFixed(2)} %`,
          measured.lossPoints.toFixed(2),
          `${(100 * measured.agreement).toFixed(1)} %`,
          Number.isFinite(measured.sqnrDb) ? `${measured.sqnrDb.toFixed(1)} dB` : "",
        ];
  const times = runtimes.flatMap((runtime) => {
    const latency = measured?.latency[runtime];
    return latency === undefined ? ["", ""] : [latency.p50Ms.toFixed(2), latency.ratio.toFixed(2)];
  });
  return [
    name,
    ...figures,
    bytes === 0 ? "" : formatBytes(bytes),
    gzipBytes === 0 ? "" : formatBytes(gzipBytes),
    ...times,
    verdict,
  ];
}
