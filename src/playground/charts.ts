// Charts as SVG, each with a title and a description for those who do not see it. Colours are the page's (style.css, .s0 to .s5).

import { element, svgElement } from "./dom.ts";
import type { AxisScale } from "../core/axis-scale.ts";

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
  /** In the picture's own units; 480 where left out. */
  readonly width?: number;
}

const HEIGHT = 300;
const MARGIN = { left: 76, right: 26, top: 12, bottom: 50 } as const;

interface Projection {
  toX(value: number): number;
  toY(value: number): number;
}

export function lineChart(chart: Chart, lines: readonly LineSeries[]): HTMLElement {
  return renderChart(
    chart,
    (places) => lines.flatMap((line) => drawLine(line, places)),
    lines.filter(({ kind }) => kind !== "marker").map(({ name, color }) => ({ name, color })),
  );
}

function drawLine(
  { kind, color: colour, points, name }: LineSeries,
  { toX: left, toY: top }: Projection,
): SVGElement[] {
  if (kind === "line" || kind === "dashed")
    return [
      svgElement("path", {
        class: `${kind} s${colour}`,
        d:
          points.length === 0 ? "" : `M${points.map(([x, y]) => `${left(x)} ${top(y)}`).join("L")}`,
      }),
    ];
  const className = kind === "marker" ? "marker" : `dot ringed s${colour}`;
  return points.map(([x, y]) =>
    svgElement("circle", {
      class: className,
      cx: left(x),
      cy: top(y),
      r: kind === "marker" ? 7 : 4.5,
      "data-name": name,
    }),
  );
}

export interface BarSeries {
  readonly name: string;
  readonly color: number;
  /** One for each place along the x axis. */
  readonly values: readonly number[];
}

/** Bars of parts, one above the other. @param slots places along the x axis; the newest value stands at its end */
export function stackedBarChart(
  chart: Chart,
  stacks: readonly BarSeries[],
  slots: number,
): HTMLElement {
  const { min: from, max: to } = chart.x.scale;
  const width = (to - from) / slots;
  const bars = ({ toX: left, toY: top }: Projection) => {
    const heights = new Map<number, number>();
    return stacks.flatMap(({ values, color: colour }) =>
      values.flatMap((value, index) => {
        const slot = slots - values.length + index;
        const below = heights.get(slot) ?? 0;
        heights.set(slot, below + value);
        if (value <= 0) return [];
        const [x, y] = [left(from + slot * width), top(below + value)];
        return [
          svgElement("rect", {
            class: `part s${colour}`,
            x,
            y,
            width: Math.max(1, left(from + (slot + 1) * width) - x - 1.5),
            height: Math.max(0, top(below) - y),
          }),
        ];
      }),
    );
  };
  return renderChart(chart, bars, stacks);
}

function renderChart(
  { id, title, description, x, y, width = 480 }: Chart,
  content: (places: Projection) => readonly SVGElement[],
  legend: readonly { readonly name: string; readonly color: number }[],
): HTMLElement {
  const left = (value: number) => project(value, x.scale, MARGIN.left, width - MARGIN.right);
  const top = (value: number) => project(value, y.scale, HEIGHT - MARGIN.bottom, MARGIN.top);
  const grid = [
    ...y.scale.ticks.flatMap((value) => [
      svgElement("path", {
        class: "grid",
        d: `M${MARGIN.left} ${top(value)}H${width - MARGIN.right}`,
      }),
      svgElement(
        "text",
        { x: MARGIN.left - 6, y: top(value) + 4, "text-anchor": "end" },
        y.format(value),
      ),
    ]),
    ...x.scale.ticks.map((value) =>
      svgElement(
        "text",
        { x: left(value), y: HEIGHT - MARGIN.bottom + 19, "text-anchor": "middle" },
        x.format(value),
      ),
    ),
    svgElement("path", {
      class: "axis",
      d: `M${MARGIN.left} ${HEIGHT - MARGIN.bottom}H${width - MARGIN.right}`,
    }),
    svgElement(
      "text",
      { x: (MARGIN.left + width - MARGIN.right) / 2, y: HEIGHT - 6, "text-anchor": "middle" },
      x.label,
    ),
    svgElement(
      "text",
      {
        transform: `translate(13 ${(HEIGHT - MARGIN.bottom + MARGIN.top) / 2}) rotate(-90)`,
        "text-anchor": "middle",
      },
      y.label,
    ),
  ];
  const picture = svgElement(
    "svg",
    { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-labelledby": `${id}-title ${id}-desc` },
    svgElement("title", { id: `${id}-title` }, title),
    svgElement("desc", { id: `${id}-desc` }, description),
    ...grid,
    ...content({ toX: left, toY: top }),
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

function project(
  value: number,
  { min: from, max: to }: AxisScale,
  start: number,
  end: number,
): number {
  const share = to === from ? 0 : Math.min(1, Math.max(0, (value - from) / (to - from)));
  return Math.round(10 * (start + share * (end - start))) / 10;
}
