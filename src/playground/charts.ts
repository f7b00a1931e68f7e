// Charts as SVG, each with a title and a description for those who do not see it. Colours are the page's (style.css, .s0 to .s5).

import { element, svg } from "./dom.ts";
import type { Scale } from "../core/scale.ts";

export interface Axis {
  readonly label: string;
  readonly scale: Scale;
  readonly format: (value: number) => string;
}

export interface Line {
  readonly name: string;
  readonly kind: "line" | "dashed" | "dots" | "now";
  readonly colour: number;
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
const EDGE = { left: 76, right: 26, top: 12, bottom: 50 } as const;

interface Places {
  left(value: number): number;
  top(value: number): number;
}

export function lineChart(chart: Chart, lines: readonly Line[]): HTMLElement {
  return figure(
    chart,
    (places) => lines.flatMap((line) => drawn(line, places)),
    lines.filter(({ kind }) => kind !== "now").map(({ name, colour }) => ({ name, colour })),
  );
}

function drawn({ kind, colour, points, name }: Line, { left, top }: Places): SVGElement[] {
  if (kind === "line" || kind === "dashed")
    return [
      svg("path", {
        class: `${kind} s${colour}`,
        d:
          points.length === 0 ? "" : `M${points.map(([x, y]) => `${left(x)} ${top(y)}`).join("L")}`,
      }),
    ];
  const className = kind === "now" ? "now" : `dot ringed s${colour}`;
  return points.map(([x, y]) =>
    svg("circle", {
      class: className,
      cx: left(x),
      cy: top(y),
      r: kind === "now" ? 7 : 4.5,
      "data-name": name,
    }),
  );
}

export interface Stack {
  readonly name: string;
  readonly colour: number;
  /** One for each place along the x axis. */
  readonly values: readonly number[];
}

/** Bars of parts, one above the other. @param slots places along the x axis; the newest value stands at its end */
export function stackChart(chart: Chart, stacks: readonly Stack[], slots: number): HTMLElement {
  const { from, to } = chart.x.scale;
  const width = (to - from) / slots;
  const bars = ({ left, top }: Places) => {
    const heights = new Map<number, number>();
    return stacks.flatMap(({ values, colour }) =>
      values.flatMap((value, index) => {
        const slot = slots - values.length + index;
        const below = heights.get(slot) ?? 0;
        heights.set(slot, below + value);
        if (value <= 0) return [];
        const [x, y] = [left(from + slot * width), top(below + value)];
        return [
          svg("rect", {
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
  return figure(chart, bars, stacks);
}

function figure(
  { id, title, description, x, y, width = 480 }: Chart,
  content: (places: Places) => readonly SVGElement[],
  legend: readonly { readonly name: string; readonly colour: number }[],
): HTMLElement {
  const left = (value: number) => place(value, x.scale, EDGE.left, width - EDGE.right);
  const top = (value: number) => place(value, y.scale, HEIGHT - EDGE.bottom, EDGE.top);
  const grid = [
    ...y.scale.ticks.flatMap((value) => [
      svg("path", { class: "grid", d: `M${EDGE.left} ${top(value)}H${width - EDGE.right}` }),
      svg("text", { x: EDGE.left - 6, y: top(value) + 4, "text-anchor": "end" }, y.format(value)),
    ]),
    ...x.scale.ticks.map((value) =>
      svg(
        "text",
        { x: left(value), y: HEIGHT - EDGE.bottom + 19, "text-anchor": "middle" },
        x.format(value),
      ),
    ),
    svg("path", {
      class: "axis",
      d: `M${EDGE.left} ${HEIGHT - EDGE.bottom}H${width - EDGE.right}`,
    }),
    svg(
      "text",
      { x: (EDGE.left + width - EDGE.right) / 2, y: HEIGHT - 6, "text-anchor": "middle" },
      x.label,
    ),
    svg(
      "text",
      {
        transform: `translate(13 ${(HEIGHT - EDGE.bottom + EDGE.top) / 2}) rotate(-90)`,
        "text-anchor": "middle",
      },
      y.label,
    ),
  ];
  const picture = svg(
    "svg",
    { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-labelledby": `${id}-title ${id}-desc` },
    svg("title", { id: `${id}-title` }, title),
    svg("desc", { id: `${id}-desc` }, description),
    ...grid,
    ...content({ left, top }),
  );
  return element(
    "div",
    {},
    element("h3", {}, title),
    picture,
    element(
      "ul",
      { class: "legend", "aria-hidden": "true" },
      ...legend.map(({ name, colour }) => element("li", { class: `s${colour}` }, name)),
    ),
  );
}

function place(value: number, { from, to }: Scale, start: number, end: number): number {
  const share = to === from ? 0 : Math.min(1, Math.max(0, (value - from) / (to - from)));
  return Math.round(10 * (start + share * (end - start))) / 10;
}
