// Renders a calibration as one self-contained HTML page: reliability diagrams, risk and coverage,
// accuracy and latency.

import { computeAxisScale, type AxisScale } from "../../core/axis-scale.ts";
import type { RiskGuarantee } from "../../registry/manifest.ts";
import type { CalibrationCurves, ReliabilityDiagram } from "../calibrate/calibration-curves.ts";
import { renderHtmlTable, renderPlots, renderReportPage } from "./report-page.ts";
import { escapeXml, type Plot, paddedRange, type PlotSeries } from "./svg-plot.ts";

export interface CalibrationReport {
  readonly model: string;
  /** Undefined for a single tier. */
  readonly risk: RiskGuarantee | undefined;
  readonly tiers: readonly {
    readonly id: string;
    readonly method: string;
    readonly exit: number | undefined;
  }[];
  readonly curves: CalibrationCurves;
}

const percent = (value: number) => `${(100 * value).toFixed(1)} %`;
/** Renders at most three decimals, without trailing zeros. */
const percentTick = (value: number) => `${Number((100 * value).toFixed(3))} %`;
const milliseconds = (value: number) => `${value.toFixed(2)} ms`;

export function renderCalibrationReport({ model, risk, tiers, curves }: CalibrationReport): string {
  const plots = [
    ...reliabilityPlots(curves),
    ...(risk === undefined ? [] : [riskPlot(curves, risk), latencyPlot(curves)]),
  ];
  const rows = tiers.map(({ id, method, exit }, position) => {
    const { before, after } = curves.reliability[position] ?? {};
    return [
      id,
      method,
      exit === undefined ? "none (last tier)" : String(exit),
      before?.expectedCalibrationError.toFixed(4) ?? "",
      after?.expectedCalibrationError.toFixed(4) ?? "",
    ];
  });
  return renderReportPage(`${model}: calibration`, [
    `<p>${escapeXml(describeGuarantee(risk, curves))}</p>`,
    renderHtmlTable(["Tier", "Method", "Exit", "ECE before", "ECE after"], rows),
    renderPlots(plots),
  ]);
}

function describeGuarantee(
  risk: RiskGuarantee | undefined,
  { tested, chosen }: CalibrationCurves,
): string {
  if (risk === undefined || chosen === undefined)
    return `A single tier answers every input. ${tested} samples were tested.`;
  const event =
    risk.what === "disagreement"
      ? "the cascade and its last tier disagree"
      : "the cascade loses accuracy against its last tier";
  return `With a confidence of ${percent(1 - risk.delta)}, the cascade's risk is at most ${percent(risk.epsilon)}. The risk is the share of inputs for which ${event}. On the ${risk.samples} tested samples it is ${percent(risk.empiricalRisk)} (${risk.method}). ${percent(chosen.coverage)} of the inputs exit before the last tier.`;
}

/** Minimum number of samples in a drawn bin. Smaller bins are noise and would dominate the plot. */
const MIN_BIN_SAMPLES = 10;

const binPoints = ({ bins }: ReliabilityDiagram): PlotSeries["points"] =>
  bins
    .filter(({ samples }) => samples >= MIN_BIN_SAMPLES)
    .map(({ meanConfidence, accuracy }) => [meanConfidence, accuracy]);

function reliabilityPlots({ reliability }: CalibrationCurves): Plot[] {
  return reliability.map(({ tier, before, after }, position) => ({
    id: `reliability-${position}`,
    title: `Reliability of ${tier}`,
    description: `Accuracy by confidence, in bins of at least ${MIN_BIN_SAMPLES} samples. The expected calibration error is ${before.expectedCalibrationError.toFixed(4)} before and ${after.expectedCalibrationError.toFixed(4)} after.`,
    x: { label: "confidence", min: 0, max: 1, format: percentTick },
    y: { label: "accuracy", min: 0, max: 1, format: percentTick },
    series: [
      {
        name: "ideal",
        kind: "dashed",
        color: 0,
        points: [
          [0, 0],
          [1, 1],
        ],
      },
      { name: "before", kind: "points", color: 1, points: binPoints(before) },
      { name: "after", kind: "line", color: 2, points: binPoints(after) },
    ],
  }));
}

const computeScale = (values: readonly number[]): AxisScale =>
  computeAxisScale(...paddedRange(values));

function riskPlot({ cascade, chosen }: CalibrationCurves, { epsilon, what }: RiskGuarantee): Plot {
  const y = computeScale([
    0,
    2 * epsilon,
    ...cascade.filter(({ risk }) => risk < 4 * epsilon).map(({ risk }) => risk),
  ]);
  return {
    id: "risk-coverage",
    title: "Risk and coverage",
    description: `Risk (${what}) by the share of inputs that exit before the last tier. ${chosen === undefined ? "" : `Chosen: ${percent(chosen.coverage)} at a risk of ${percent(chosen.risk)}; the bound is ${percent(epsilon)}.`}`,
    x: { label: "early exits", min: 0, max: 1, format: percentTick },
    y: { label: `risk (${what})`, ...y, format: percentTick },
    series: [
      {
        name: "bound",
        kind: "dashed",
        color: 0,
        points: [
          [0, epsilon],
          [1, epsilon],
        ],
      },
      {
        name: "cascade",
        kind: "line",
        color: 2,
        points: cascade.map(({ coverage, risk }) => [coverage, risk]),
      },
      {
        name: "chosen",
        kind: "chosen",
        color: 3,
        points: chosen === undefined ? [] : [[chosen.coverage, chosen.risk]],
      },
    ],
  };
}

function latencyPlot({ cascade, chosen, alone }: CalibrationCurves): Plot {
  const points = [...cascade, ...alone, ...(chosen === undefined ? [] : [chosen])];
  const [x, y] = [
    computeScale(points.map(({ meanMs }) => meanMs)),
    computeScale(points.map(({ accuracy }) => accuracy)),
  ];
  return {
    id: "accuracy-latency",
    title: "Accuracy and latency",
    description: `Accuracy by mean latency. ${alone.map(({ tier, accuracy, meanMs }) => `${tier} alone: ${percent(accuracy)} in ${milliseconds(meanMs)}.`).join(" ")} ${chosen === undefined ? "" : `Chosen: ${percent(chosen.accuracy)} in ${milliseconds(chosen.meanMs)}.`}`,
    x: { label: "mean latency", ...x, format: (ms) => `${Number(ms.toPrecision(6))} ms` },
    y: { label: "accuracy", ...y, format: percentTick },
    series: [
      {
        name: "cascade",
        kind: "line",
        color: 2,
        points: cascade.map(({ meanMs, accuracy }) => [meanMs, accuracy]),
      },
      {
        name: "single tier",
        kind: "points",
        color: 1,
        points: alone.map(({ meanMs, accuracy }) => [meanMs, accuracy]),
      },
      {
        name: "chosen",
        kind: "chosen",
        color: 3,
        points: chosen === undefined ? [] : [[chosen.meanMs, chosen.accuracy]],
      },
    ],
  };
}
