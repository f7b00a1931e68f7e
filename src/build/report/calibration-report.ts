// A calibration as one HTML page: reliability diagrams, risk and coverage, accuracy and latency. Nothing is loaded from elsewhere.

import type { CalibrationCurves, Reliability } from "../calibrate/curves.ts";
import type { RiskRecord } from "../../registry/manifest.ts";
import { escapeXml, type Plot, rangeOf, type Series, svgPlot } from "./svg-plot.ts";

export interface CalibrationReport {
  readonly model: string;
  /** Absent for a single tier. */
  readonly risk: RiskRecord | undefined;
  readonly tiers: readonly { readonly id: string; readonly method: string; readonly exit: number | undefined }[];
  readonly curves: CalibrationCurves;
}

const percent = (value: number) => `${(100 * value).toFixed(1)} %`;
const milliseconds = (value: number) => `${value.toFixed(2)} ms`;

export function calibrationReport({ model, risk, tiers, curves }: CalibrationReport): string {
  const plots = [...reliabilityPlots(curves), ...(risk === undefined ? [] : [riskPlot(curves, risk), latencyPlot(curves)])];
  const rows = tiers.map(({ id, method, exit }, position) => {
    const { before, after } = curves.reliability[position] ?? {};
    const cells = [id, method, exit === undefined ? "takes all" : String(exit), before?.expectedCalibrationError.toFixed(4) ?? "", after?.expectedCalibrationError.toFixed(4) ?? ""];
    return `<tr>${cells.map((cell) => `<td>${escapeXml(cell)}</td>`).join("")}</tr>`;
  });
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeXml(model)}: calibration</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<h1>${escapeXml(model)}: calibration</h1>
<p>${escapeXml(promiseOf(risk, curves))}</p>
<table>
<thead><tr>${["Tier", "Method", "Exit", "ECE before", "ECE after"].map((head) => `<th scope="col">${head}</th>`).join("")}</tr></thead>
<tbody>${rows.join("")}</tbody>
</table>
<div class="plots">
${plots.map((plot) => `<figure><h2>${escapeXml(plot.title)}</h2>${svgPlot(plot)}<figcaption>${plot.series.map(legendOf).join(" ")}</figcaption></figure>`).join("\n")}
</div>
</main>
</body>
</html>
`;
}

function promiseOf(risk: RiskRecord | undefined, { tested, chosen }: CalibrationCurves): string {
  if (risk === undefined || chosen === undefined) return `One tier, which answers everything; ${tested} samples tested.`;
  const what = risk.what === "disagreement" ? "it answers otherwise than its last tier" : "it loses accuracy against its last tier";
  return `With a confidence of ${percent(1 - risk.delta)}, the cascade's risk is at most ${percent(risk.epsilon)}: the share of inputs for which ${what}. On the ${risk.samples} samples tested it is ${percent(risk.empiricalRisk)} (${risk.method}). ${percent(chosen.coverage)} are answered before the last tier.`;
}

const legendOf = ({ name, colour, kind }: Series) => `<span class="key ${kind} colour-${colour}">${escapeXml(name)}</span>`;

/** Bins of fewer samples say hardly anything, and would be all that one sees. */
const MIN_IN_BIN = 10;

const binPoints = ({ bins }: Reliability): Series["points"] => bins.filter(({ samples }) => samples >= MIN_IN_BIN).map(({ meanConfidence, accuracy }) => [meanConfidence, accuracy]);

function reliabilityPlots({ reliability }: CalibrationCurves): Plot[] {
  return reliability.map(({ tier, before, after }, position) => ({
    id: `reliability-${position}`,
    title: `Reliability of ${tier}`,
    description: `Accuracy by confidence, in bins of ${MIN_IN_BIN} samples or more. The expected calibration error is ${before.expectedCalibrationError.toFixed(4)} before and ${after.expectedCalibrationError.toFixed(4)} after.`,
    x: { label: "confidence", from: 0, to: 1, format: percent },
    y: { label: "accuracy", from: 0, to: 1, format: percent },
    series: [
      { name: "as it should be", kind: "dashed", colour: 0, points: [[0, 0], [1, 1]] },
      { name: "before", kind: "points", colour: 1, points: binPoints(before) },
      { name: "after", kind: "line", colour: 2, points: binPoints(after) },
    ],
  }));
}

function riskPlot({ cascade, chosen }: CalibrationCurves, { epsilon, what }: RiskRecord): Plot {
  const [from, to] = rangeOf([0, 2 * epsilon, ...cascade.filter(({ risk }) => risk < 4 * epsilon).map(({ risk }) => risk)]);
  return {
    id: "risk-coverage",
    title: "Risk and coverage",
    description: `The risk (${what}) by the share of inputs that are answered before the last tier. ${chosen === undefined ? "" : `Chosen: ${percent(chosen.coverage)} at a risk of ${percent(chosen.risk)}, where ${percent(epsilon)} are allowed.`}`,
    x: { label: "answered before the last tier", from: 0, to: 1, format: percent },
    y: { label: `risk (${what})`, from, to, format: percent },
    series: [
      { name: "allowed", kind: "dashed", colour: 0, points: [[0, epsilon], [1, epsilon]] },
      { name: "cascade", kind: "line", colour: 2, points: cascade.map(({ coverage, risk }) => [coverage, risk]) },
      { name: "chosen", kind: "chosen", colour: 3, points: chosen === undefined ? [] : [[chosen.coverage, chosen.risk]] },
    ],
  };
}

function latencyPlot({ cascade, chosen, alone }: CalibrationCurves): Plot {
  const all = [...cascade, ...alone, ...(chosen === undefined ? [] : [chosen])];
  const [xFrom, xTo] = rangeOf(all.map(({ meanMs }) => meanMs));
  const [yFrom, yTo] = rangeOf(all.map(({ accuracy }) => accuracy));
  return {
    id: "accuracy-latency",
    title: "Accuracy and latency",
    description: `Accuracy by mean latency. ${alone.map(({ tier, accuracy, meanMs }) => `${tier} alone: ${percent(accuracy)} in ${milliseconds(meanMs)}.`).join(" ")} ${chosen === undefined ? "" : `Chosen: ${percent(chosen.accuracy)} in ${milliseconds(chosen.meanMs)}.`}`,
    x: { label: "mean latency", from: xFrom, to: xTo, format: milliseconds },
    y: { label: "accuracy", from: yFrom, to: yTo, format: percent },
    series: [
      { name: "cascade", kind: "line", colour: 2, points: cascade.map(({ meanMs, accuracy }) => [meanMs, accuracy]) },
      { name: "a tier alone", kind: "points", colour: 1, points: alone.map(({ meanMs, accuracy }) => [meanMs, accuracy]) },
      { name: "chosen", kind: "chosen", colour: 3, points: chosen === undefined ? [] : [[chosen.meanMs, chosen.accuracy]] },
    ],
  };
}

/** Colours are told apart by those who do not see red or green, and each kind of series has a form of its own. */
const STYLE = `
:root { color-scheme: light dark; --ground: #fff; --text: #1b1f24; --quiet: #d0d7de; --c0: #6e7781; --c1: #b35900; --c2: #0969da; --c3: #8250df; }
@media (prefers-color-scheme: dark) { :root { --ground: #0d1117; --text: #e6edf3; --quiet: #30363d; --c0: #8b949e; --c1: #f0883e; --c2: #58a6ff; --c3: #bc8cff; } }
body { margin: 0; background: var(--ground); color: var(--text); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 1040px; margin: 0 auto; padding: 24px 16px; }
table { border-collapse: collapse; } th, td { text-align: left; padding: 4px 16px 4px 0; border-bottom: 1px solid var(--quiet); }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(320px, 1fr)); gap: 24px; }
figure { margin: 0; } h2 { font-size: 1.1rem; } svg { width: 100%; height: auto; font: 12px system-ui, sans-serif; fill: var(--text); }
.grid { stroke: var(--quiet); } .series path { fill: none; stroke-width: 2; } .dashed path { stroke-dasharray: 6 4; } .chosen circle { stroke-width: 2; }
${[0, 1, 2, 3].map((colour) => `.colour-${colour} path { stroke: var(--c${colour}); } .colour-${colour} circle { fill: var(--c${colour}); stroke: var(--ground); } .key.colour-${colour}::before { color: var(--c${colour}); }`).join("\n")}
.key { margin-right: 16px; } .key::before { content: "\\2501 "; } .key.dashed::before { content: "\\2505 "; } .key.points::before { content: "\\25CF "; } .key.chosen::before { content: "\\2B24 "; }
`;
