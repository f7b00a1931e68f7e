// SVG charts, each with a title and a description for screen readers. Colors are defined in style.css (.s0 to .s5).

import type { AxisScale } from "../core/axis-scale.ts";
import { element, svgElement } from "./dom.ts";

export interface Axis {
  readonly label: string;
  readonly scale: AxisScale;
  readonly format: (value: number) => string;
}

export interface LineSeries {
  readonly name: string;
  readonly kind: "line" | "dashed" | "dots" | "marker";
  readonly color: number;
  readonly points: readonly (readonly [x: number, y: number])[];
}

export interface Chart {
  readonly id: string;
  readonly title: string;
  readonly description: string;
  readonly x: Axis;
  readonly y: Axis;
  /** Width in SVG units; defaults to 480. */
  readonly width?: number;
}

const DEFAULT_WIDTH = 480;
const HEIGHT = 300;
const MARGIN = { left: 76, right: 26, top: 12, bottom: 50 } as const;

interface Projection {
  toX(value: number): number;
  toY(value: number): number;
}

export function lineChart(chart: Chart, lines: readonly LineSeries[]): HTMLElement {
  return renderChart(
    chart,
    (projection) => lines.flatMap((line) => renderLine(line, projection)),
    lines.filter(({ kind }) => kind !== "marker").map(({ name, color }) => ({ name, color })),
  );
}

function renderLine(
  { kind, color, points, name }: LineSeries,
  { toX, toY }: Projection,
): SVGElement[] {
  if (kind === "line" || kind === "dashed")
    return [
      svgElement("path", {
        class: `${kind} s${color}`,
        d: points.length === 0 ? "" : `M${points.map(([x, y]) => `${toX(x)} ${toY(y)}`).join("L")}`,
      }),
    ];
  const className = kind === "marker" ? "marker" : `dot ringed s${color}`;
  return points.map(([x, y]) =>
    svgElement("circle", {
      class: className,
      cx: toX(x),
      cy: toY(y),
      r: kind === "marker" ? 7 : 4.5,
      "data-name": name,
    }),
  );
}

export interface BarSeries {
  readonly name: string;
  readonly color: number;
  /** One value for each slot of the x axis. */
  readonly values: readonly number[];
}

/** @param slots number of bars along the x axis; the last value is at its end */
export function stackedBarChart(
  chart: Chart,
  series: readonly BarSeries[],
  slots: number,
): HTMLElement {
  const { min, max } = chart.x.scale;
  const slotWidth = (max - min) / slots;
  const renderBars = ({ toX, toY }: Projection) => {
    const heights = new Map<number, number>();
    return series.flatMap(({ values, color }) =>
      values.flatMap((value, index) => {
        const slot = slots - values.length + index;
        const below = heights.get(slot) ?? 0;
        heights.set(slot, below + value);
        if (value <= 0) return [];
        const x = toX(min + slot * slotWidth);
        const y = toY(below + value);
        return [
          svgElement("rect", {
            class: `part s${color}`,
            x,
            y,
            width: Math.max(1, toX(min + (slot + 1) * slotWidth) - x - 1.5),
            height: Math.max(0, toY(below) - y),
          }),
        ];
      }),
    );
  };
  return renderChart(chart, renderBars, series);
}

function renderChart(
  chart: Chart,
  renderContent: (projection: Projection) => readonly SVGElement[],
  legend: readonly { readonly name: string; readonly color: number }[],
): HTMLElement {
  const { id, title, description, x, y, width = DEFAULT_WIDTH } = chart;
  const projection = {
    toX: (value: number) => project(value, x.scale, MARGIN.left, width - MARGIN.right),
    toY: (value: number) => project(value, y.scale, HEIGHT - MARGIN.bottom, MARGIN.top),
  };
  const picture = svgElement(
    "svg",
    { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-labelledby": `${id}-title ${id}-desc` },
    svgElement("title", { id: `${id}-title` }, title),
    svgElement("desc", { id: `${id}-desc` }, description),
    ...renderAxes(chart, width, projection),
    ...renderContent(projection),
  );
  return element(
    "div",
    {},
    element("h3", {}, title),
    picture,
    element(
      "ul",
      { class: "legend", "aria-hidden": "true" },
      ...legend.map(({ name, color }) => element("li", { class: `s${color}` }, name)),
    ),
  );
}

/** Renders grid lines, tick labels and axis labels. */
function renderAxes({ x, y }: Chart, width: number, { toX, toY }: Projection): SVGElement[] {
  const bottom = HEIGHT - MARGIN.bottom;
  const right = width - MARGIN.right;
  return [
    ...y.scale.ticks.flatMap((value) => [
      svgElement("path", { class: "grid", d: `M${MARGIN.left} ${toY(value)}H${right}` }),
      svgElement(
        "text",
        { x: MARGIN.left - 6, y: toY(value) + 4, "text-anchor": "end" },
        y.format(value),
      ),
    ]),
    ...x.scale.ticks.map((value) =>
      svgElement(
        "text",
        { x: toX(value), y: bottom + 19, "text-anchor": "middle" },
        x.format(value),
      ),
    ),
    svgElement("path", { class: "axis", d: `M${MARGIN.left} ${bottom}H${right}` }),
    svgElement(
      "text",
      { x: (MARGIN.left + right) / 2, y: HEIGHT - 6, "text-anchor": "middle" },
      x.label,
    ),
    svgElement(
      "text",
      {
        transform: `translate(13 ${(bottom + MARGIN.top) / 2}) rotate(-90)`,
        "text-anchor": "middle",
      },
      y.label,
    ),
  ];
}

function project(value: number, { min, max }: AxisScale, start: number, end: number): number {
  const share = max === min ? 0 : Math.min(1, Math.max(0, (value - min) / (max - min)));
  return Math.round(10 * (start + share * (end - start))) / 10;
}
