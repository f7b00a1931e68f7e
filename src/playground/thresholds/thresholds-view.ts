// Thresholds view: reliability diagram and risk-coverage curve of the served version, with a slider for its thresholds.

import { computeAxisScale } from "../../core/axis-scale.ts";
import type { ModelReport } from "../../protocol/model-report.ts";
import { type LineSeries, lineChart } from "../charts.ts";
import { element, getElement, table } from "../dom.ts";
import { callApi } from "../edge-api.ts";
import { formatConfidence, formatCount, formatPercent } from "../format.ts";
import type { SelectedModel } from "../model-picker.ts";
import {
  coverageOf,
  type OperatingPoint,
  regionShareOf,
  findServedPoint,
  formatThresholds,
} from "./operating-points.ts";

/** Bins with fewer samples are too uncertain to be drawn. */
const MIN_BIN_SAMPLES = 10;
const UNIT_SCALE = computeAxisScale(0, 1);
const formatWholePercent = (value: number) => formatPercent(value, 0);

/** @returns function that shows the selected model's report */
export function mountThresholdsView(
  onFailed: (error: unknown) => void,
): (model: SelectedModel) => void {
  const container = getElement("report", HTMLElement);
  let lastRequest = 0;
  return ({ detail }) => {
    const request = ++lastRequest;
    const name = `${detail.model}@${detail.version}`;
    if (detail.report === undefined)
      return container.replaceChildren(
        element(
          "p",
          { class: "note" },
          `${name} was published without a report. `,
          element("code", {}, "edgetier model calibrate"),
          " writes one for classification models.",
        ),
      );
    void callApi<ModelReport>(detail.report).then(
      ({ body }) =>
        request === lastRequest &&
        container.replaceChildren(...renderReport(name, body, findServedPoint(body, detail))),
      onFailed,
    );
  };
}

function renderReport(name: string, report: ModelReport, servedIndex: number): HTMLElement[] {
  const summary = element(
    "p",
    { class: "note" },
    `${name}, on ${formatCount(report.tested)} test samples of its thresholds.`,
  );
  const reliability = element(
    "div",
    { class: "card" },
    reliabilityChart(report),
    binsTable(report),
  );
  const cards = report.points.length === 0 ? [] : sliderCards(report, servedIndex);
  return [summary, element("div", { class: "panels two" }, ...cards, reliability)];
}

function reliabilityChart({ tiers }: ModelReport): HTMLElement {
  const lines = tiers.flatMap(({ id, bins }, color): LineSeries[] => {
    const points = bins
      .filter(({ samples }) => samples >= MIN_BIN_SAMPLES)
      .map(({ meanConfidence, accuracy }) => [meanConfidence, accuracy] as const);
    return [
      { name: id, kind: "line", color, points },
      { name: id, kind: "dots", color, points },
    ];
  });
  const chart = {
    id: "reliability",
    title: "Reliability",
    description: `Accuracy by confidence. Calibrated outputs lie on the diagonal. ${tiers.map(({ id, expectedCalibrationError }) => `${id}: expected calibration error ${formatPercent(expectedCalibrationError)}`).join("; ")}. The table below lists the bins.`,
    x: { label: "confidence", scale: UNIT_SCALE, format: formatWholePercent },
    y: { label: "accuracy", scale: UNIT_SCALE, format: formatWholePercent },
  };
  const figure = lineChart(chart, [
    {
      name: "calibrated",
      kind: "dashed",
      color: 5,
      points: [
        [0, 0],
        [1, 1],
      ],
    },
    ...lines.filter(({ kind }) => kind === "line"),
    ...lines.filter(({ kind }) => kind === "dots").map((line) => ({ ...line, name: "" })),
  ]);
  for (const empty of figure.querySelectorAll(".legend li:empty")) empty.remove();
  figure.append(
    element(
      "p",
      { class: "note" },
      tiers
        .map(
          ({ id, expectedCalibrationError, accuracy }) =>
            `${id}: ${formatPercent(accuracy)} accuracy on its own, calibration error ${formatPercent(expectedCalibrationError)}`,
        )
        .join("; "),
      ".",
    ),
  );
  return figure;
}

function binsTable({ tiers }: ModelReport): HTMLElement {
  const rows = tiers.flatMap(({ id, bins }) =>
    bins.map(({ samples, meanConfidence, accuracy }) => [
      id,
      formatPercent(meanConfidence),
      formatPercent(accuracy),
      samples,
    ]),
  );
  return element(
    "details",
    {},
    element("summary", {}, "Bins as a table"),
    table("Reliability by bin", [["Tier", "Mean confidence", "Accuracy", "Samples"], ...rows]),
  );
}

function sliderCards(report: ModelReport, servedIndex: number): HTMLElement[] {
  const { points } = report;
  const slider = element("input", {
    type: "range",
    id: "threshold",
    min: 0,
    max: points.length - 1,
    step: 1,
    value: servedIndex,
    "aria-describedby": "threshold-note",
  });
  const output = element("output", { for: "threshold" });
  const chart = element("div", { class: "card" });
  const figures = element("div", { role: "status" });
  const reset = element(
    "button",
    { type: "button", class: "quiet" },
    "Reset to the served threshold",
  );

  const show = () => {
    const index = Number(slider.value);
    const point = points[index];
    const served = points[servedIndex];
    if (point === undefined || served === undefined) return;
    output.textContent = `${formatThresholds(point, report)}${index === servedIndex ? " (served)" : ""}`;
    slider.setAttribute(
      "aria-valuetext",
      `threshold ${formatThresholds(point, report)}: ${formatPercent(regionShareOf(point, report))} go to the region, risk ${formatPercent(point.risk, 2)}`,
    );
    chart.replaceChildren(riskChart(report, served, point));
    figures.replaceChildren(operatingPointTable(report, served, point));
    reset.disabled = index === servedIndex;
  };
  slider.addEventListener("input", show);
  reset.addEventListener("click", () => {
    slider.value = String(servedIndex);
    show();
  });
  show();
  const control = sliderControl(slider, output, reset);
  return [
    element(
      "div",
      { class: "card wide" },
      element("h3", {}, "Effect of another threshold"),
      control,
      figures,
    ),
    chart,
  ];
}

function sliderControl(slider: HTMLElement, output: HTMLElement, reset: HTMLElement): HTMLElement {
  return element(
    "div",
    { class: "slide" },
    element("label", { for: "threshold" }, "Minimum confidence for an exit"),
    output,
    slider,
    element(
      "p",
      { id: "threshold-note", class: "note" },
      "Move left to escalate more inputs, right to answer more early. The slider changes no deployment.",
    ),
    element("p", {}, reset),
  );
}

function operatingPointTable(
  report: ModelReport,
  served: OperatingPoint,
  point: OperatingPoint,
): HTMLElement {
  const compare = (value: number, servedValue: number) =>
    value === servedValue
      ? "as served"
      : `${value > servedValue ? "+" : "−"}${(100 * Math.abs(value - servedValue)).toFixed(2)} points`;
  const entry = (name: string, value: string, note: string, id: string) =>
    element(
      "div",
      { "data-figure": id },
      element("dt", {}, name),
      element("dd", {}, value, element("small", {}, note)),
    );
  const coverage = coverageOf(point);
  const regionShare = regionShareOf(point, report);
  const { risk } = report;
  return element(
    "dl",
    { class: "figures" },
    entry(
      "Answered early",
      formatPercent(coverage),
      compare(coverage, coverageOf(served)),
      "coverage",
    ),
    entry(
      "To the region",
      formatPercent(regionShare),
      compare(regionShare, regionShareOf(served, report)),
      "region",
    ),
    entry(
      risk?.what === "accuracy" ? "Accuracy lost" : "Answered differently",
      formatPercent(point.risk, 2),
      compare(point.risk, served.risk),
      "risk",
    ),
    entry(
      "Accuracy",
      formatPercent(point.accuracy),
      compare(point.accuracy, served.accuracy),
      "accuracy",
    ),
    ...(risk === undefined
      ? []
      : [
          entry(
            `Risk at most ${formatPercent(risk.epsilon)}`,
            point.holds ? "verified" : "not verified",
            `with ${formatPercent(1 - risk.delta, 0)} confidence`,
            "holds",
          ),
        ]),
  );
}

function riskChart(
  report: ModelReport,
  served: OperatingPoint,
  point: OperatingPoint,
): HTMLElement {
  const { points, risk } = report;
  const epsilon = risk?.epsilon ?? 0;
  const risks = points.map(({ risk }) => risk);
  const minRisk = Math.min(0, ...risks);
  const maxRisk = Math.max(2 * epsilon, ...risks);
  const toCoordinates = (shown: OperatingPoint): readonly [number, number] => [
    coverageOf(shown),
    shown.risk,
  ];
  const chart = {
    id: "risk",
    title: "Risk and coverage",
    description: `Risk by the share of inputs answered before the last tier. Thresholds range from ${formatConfidence(points[0]?.thresholds[0] ?? 1)} to ${formatConfidence(points.at(-1)?.thresholds[0] ?? 0)}. Served: ${formatPercent(coverageOf(served))} at a risk of ${formatPercent(served.risk, 2)}${risk === undefined ? "" : `, of which ${formatPercent(epsilon)} are allowed`}.`,
    x: { label: "answered before the last tier", scale: UNIT_SCALE, format: formatWholePercent },
    y: {
      label: risk?.what === "accuracy" ? "accuracy lost" : "answered differently",
      scale: computeAxisScale(minRisk, maxRisk),
      format: (value: number) => formatPercent(value, 2),
    },
  };
  return lineChart(chart, [
    ...(risk === undefined
      ? []
      : [
          {
            name: "allowed",
            kind: "dashed",
            color: 4,
            points: [
              [0, epsilon],
              [1, epsilon],
            ],
          } as const,
        ]),
    { name: "this version", kind: "line", color: 0, points: points.map(toCoordinates) },
    { name: "served", kind: "dots", color: 2, points: [toCoordinates(served)] },
    { name: "slider", kind: "marker", color: 0, points: [toCoordinates(point)] },
  ]);
}
