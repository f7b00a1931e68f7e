// The reliability diagram and the risk-coverage curve of the served version, and a slider over its thresholds.

import type { ModelReport } from "../../protocol/model-report.ts";
import { callApi } from "../edge-api.ts";
import { type LineSeries, lineChart } from "../charts.ts";
import type { SelectedModel } from "../model-picker.ts";
import { element, getElement, table } from "../dom.ts";
import { formatConfidence, formatCount, formatPercent } from "../format.ts";
import { computeAxisScale } from "../../core/axis-scale.ts";
import {
  coverageOf,
  type OperatingPoint,
  regionShareOf,
  findServedPoint,
  formatThresholds,
} from "./operating-points.ts";

/** Bins of fewer samples say hardly anything. */
const MIN_BIN_SAMPLES = 10;
const UNIT_SCALE = computeAxisScale(0, 1);
const formatWholePercent = (value: number) => formatPercent(value, 0);

/** @returns what is told of every model that is chosen */
export function mountThresholdsView(
  onFailed: (error: unknown) => void,
): (model: SelectedModel) => void {
  const place = getElement("report", HTMLElement);
  let turn = 0;
  return ({ detail }) => {
    const own = ++turn;
    const name = `${detail.model}@${detail.version}`;
    if (detail.report === undefined)
      return place.replaceChildren(
        element(
          "p",
          { class: "note" },
          `${name} was published without a report. `,
          element("code", {}, "edgetier model calibrate"),
          " writes one, for models that answer with labels.",
        ),
      );
    void callApi<ModelReport>(detail.report).then(
      ({ body }) =>
        own === turn &&
        place.replaceChildren(...renderReport(name, body, findServedPoint(body, detail))),
      onFailed,
    );
  };
}

function renderReport(name: string, report: ModelReport, served: number): HTMLElement[] {
  const about = element(
    "p",
    { class: "note" },
    `${name}, on ${formatCount(report.tested)} samples that its thresholds were tested on.`,
  );
  const reliability = element(
    "div",
    { class: "card" },
    reliabilityChart(report),
    binsTable(report),
  );
  const cards = report.points.length === 0 ? [] : sliderCards(report, served);
  return [about, element("div", { class: "panels two" }, ...cards, reliability)];
}

function reliabilityChart({ tiers }: ModelReport): HTMLElement {
  const lines = tiers.flatMap(({ id, bins }, colour): LineSeries[] => {
    const points = bins
      .filter(({ samples }) => samples >= MIN_BIN_SAMPLES)
      .map(({ meanConfidence, accuracy }) => [meanConfidence, accuracy] as const);
    return [
      { name: id, kind: "line", color: colour, points },
      { name: id, kind: "dots", color: colour, points },
    ];
  });
  const chart = {
    id: "reliability",
    title: "Reliability",
    description: `How often answers are right, by their confidence: on the diagonal, as often as they say. ${tiers.map(({ id, expectedCalibrationError }) => `${id}: expected calibration error ${formatPercent(expectedCalibrationError)}`).join("; ")}. The table below has the bins.`,
    x: { label: "confidence", scale: UNIT_SCALE, format: formatWholePercent },
    y: { label: "right", scale: UNIT_SCALE, format: formatWholePercent },
  };
  const made = lineChart(chart, [
    {
      name: "as it should be",
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
  for (const empty of made.querySelectorAll(".legend li:empty")) empty.remove();
  made.append(
    element(
      "p",
      { class: "note" },
      tiers
        .map(
          ({ id, expectedCalibrationError, accuracy }) =>
            `${id}: ${formatPercent(accuracy)} right by itself, calibration error ${formatPercent(expectedCalibrationError)}`,
        )
        .join("; "),
      ".",
    ),
  );
  return made;
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
    element("summary", {}, "The bins as a table"),
    table("Reliability by bin", [["Tier", "Mean confidence", "Right", "Samples"], ...rows]),
  );
}

function sliderCards(report: ModelReport, served: number): HTMLElement[] {
  const { points } = report;
  const slider = element("input", {
    type: "range",
    id: "threshold",
    min: 0,
    max: points.length - 1,
    step: 1,
    value: served,
    "aria-describedby": "threshold-note",
  });
  const output = element("output", { for: "threshold" });
  const chart = element("div", { class: "card" });
  const figures = element("div", { role: "status" });
  const back = element("button", { type: "button", class: "quiet" }, "Back to what is served");

  const show = () => {
    const at = Number(slider.value);
    const point = points[at];
    const now = points[served];
    if (point === undefined || now === undefined) return;
    output.textContent = `${formatThresholds(point, report)}${at === served ? " (served)" : ""}`;
    slider.setAttribute(
      "aria-valuetext",
      `threshold ${formatThresholds(point, report)}: ${formatPercent(regionShareOf(point, report))} go to the region, risk ${formatPercent(point.risk, 2)}`,
    );
    chart.replaceChildren(riskChart(report, now, point));
    figures.replaceChildren(operatingPointTable(report, now, point));
    back.disabled = at === served;
  };
  slider.addEventListener("input", show);
  back.addEventListener("click", () => {
    slider.value = String(served);
    show();
  });
  show();
  const control = element(
    "div",
    { class: "slide" },
    element("label", { for: "threshold" }, "Exit from a confidence of"),
    output,
    slider,
    element(
      "p",
      { id: "threshold-note", class: "note" },
      "To the left, more goes on to the region; to the right, more is answered early. Nothing is changed by it.",
    ),
    element("p", {}, back),
  );
  return [
    element(
      "div",
      { class: "card wide" },
      element("h3", {}, "What another threshold would cost"),
      control,
      figures,
    ),
    chart,
  ];
}

function operatingPointTable(
  report: ModelReport,
  served: OperatingPoint,
  point: OperatingPoint,
): HTMLElement {
  const against = (own: number, now: number) =>
    own === now
      ? "as served"
      : `${own > now ? "+" : "−"}${(100 * Math.abs(own - now)).toFixed(2)} points`;
  const entry = (name: string, value: string, more: string, id: string) =>
    element(
      "div",
      { "data-figure": id },
      element("dt", {}, name),
      element("dd", {}, value, element("small", {}, more)),
    );
  const [early, earlyNow] = [coverageOf(point), coverageOf(served)];
  const [region, regionNow] = [regionShareOf(point, report), regionShareOf(served, report)];
  const { risk } = report;
  return element(
    "dl",
    { class: "figures" },
    entry("Answered early", formatPercent(early), against(early, earlyNow), "coverage"),
    entry("To the region", formatPercent(region), against(region, regionNow), "region"),
    entry(
      risk?.what === "accuracy" ? "Accuracy lost" : "Answered otherwise",
      formatPercent(point.risk, 2),
      against(point.risk, served.risk),
      "risk",
    ),
    entry(
      "Right",
      formatPercent(point.accuracy),
      against(point.accuracy, served.accuracy),
      "accuracy",
    ),
    ...(risk === undefined
      ? []
      : [
          entry(
            `Risk of ${formatPercent(risk.epsilon)} at most`,
            point.holds ? "shown" : "not shown",
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
  const risks = points.map((one) => one.risk);
  const [least, most] = [Math.min(0, ...risks), Math.max(2 * epsilon, ...risks)];
  const place = (one: OperatingPoint): readonly [number, number] => [coverageOf(one), one.risk];
  const chart = {
    id: "risk",
    title: "Risk and coverage",
    description: `The risk by the share of inputs that are answered before the last tier, from ${formatConfidence(points[0]?.thresholds[0] ?? 1)} as the threshold to ${formatConfidence(points.at(-1)?.thresholds[0] ?? 0)}. Served: ${formatPercent(coverageOf(served))} at a risk of ${formatPercent(served.risk, 2)}${risk === undefined ? "" : `, where ${formatPercent(epsilon)} are allowed`}.`,
    x: { label: "answered before the last tier", scale: UNIT_SCALE, format: formatWholePercent },
    y: {
      label: risk?.what === "accuracy" ? "accuracy lost" : "answered otherwise",
      scale: computeAxisScale(least, most),
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
    { name: "this version", kind: "line", color: 0, points: points.map(place) },
    { name: "served", kind: "dots", color: 2, points: [place(served)] },
    { name: "the slider", kind: "marker", color: 0, points: [place(point)] },
  ]);
}
