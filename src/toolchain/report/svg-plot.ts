// A plot as SVG: lines and points over two axes, for a page that has the colours (report-page.ts). No scripts.

export interface PlotSeries {
  readonly name: string;
  readonly kind: "line" | "dashed" | "points" | "chosen";
  /** From 0; colours of the page. */
  readonly color: number;
  readonly points: readonly (readonly [x: number, y: number])[];
}

export interface PlotAxis {
  readonly label: string;
  readonly min: number;
  readonly max: number;
  /** Five equal steps where left out. */
  readonly ticks?: readonly number[];
  readonly format: (value: number) => string;
}

export interface Plot {
  /** Unique in the page. */
  readonly id: string;
  readonly title: string;
  /** What the plot shows, for those who do not see it. */
  readonly description: string;
  readonly x: PlotAxis;
  readonly y: PlotAxis;
  readonly series: readonly PlotSeries[];
}

const [WIDTH, HEIGHT] = [480, 320];
const MARGIN = { left: 80, right: 28, top: 16, bottom: 48 } as const;
const DEFAULT_TICK_COUNT = 5;

export function escapeXml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** Values outside the axes are drawn at their ends. */
export function renderSvgPlot({ id, title, description, x, y, series }: Plot): string {
  const left = (value: number) => toPixel(value, x, MARGIN.left, WIDTH - MARGIN.right);
  const top = (value: number) => toPixel(value, y, HEIGHT - MARGIN.bottom, MARGIN.top);
  const [x0, x1, y0, y1] = [MARGIN.left, WIDTH - MARGIN.right, HEIGHT - MARGIN.bottom, MARGIN.top];
  const grid = [
    ...ticksOf(x).map(
      (value) =>
        `<path class="grid" d="M${left(value)} ${y0}V${y1}"/><text class="tick" x="${left(value)}" y="${y0 + 16}" text-anchor="middle">${escapeXml(x.format(value))}</text>`,
    ),
    ...ticksOf(y).map(
      (value) =>
        `<path class="grid" d="M${x0} ${top(value)}H${x1}"/><text class="tick" x="${x0 - 6}" y="${top(value) + 4}" text-anchor="end">${escapeXml(y.format(value))}</text>`,
    ),
  ];
  const labels = [
    `<text class="label" x="${(x0 + x1) / 2}" y="${HEIGHT - 10}" text-anchor="middle">${escapeXml(x.label)}</text>`,
    `<text class="label" transform="translate(14 ${(y0 + y1) / 2}) rotate(-90)" text-anchor="middle">${escapeXml(y.label)}</text>`,
  ];
  const drawn = series.map((one) => renderSeries(one, left, top));
  return `<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-labelledby="${id}-title ${id}-desc"><title id="${id}-title">${escapeXml(title)}</title><desc id="${id}-desc">${escapeXml(description)}</desc>${grid.join("")}${labels.join("")}${drawn.join("")}</svg>`;
}

function renderSeries(
  { name, kind, color, points }: PlotSeries,
  left: (x: number) => number,
  top: (y: number) => number,
): string {
  const known = points.filter(([x, y]) => Number.isFinite(x) && Number.isFinite(y));
  const group = (inside: string) =>
    `<g class="series ${kind} color-${color}"><title>${escapeXml(name)}</title>${inside}</g>`;
  if (kind === "line" || kind === "dashed")
    return group(
      known.length === 0
        ? ""
        : `<path d="M${known.map(([x, y]) => `${left(x)} ${top(y)}`).join("L")}"/>`,
    );
  return group(
    known
      .map(
        ([x, y]) => `<circle cx="${left(x)}" cy="${top(y)}" r="${kind === "chosen" ? 6 : 3.5}"/>`,
      )
      .join(""),
  );
}

function toPixel(value: number, { min, max }: PlotAxis, start: number, end: number): number {
  const share = max === min ? 0.5 : Math.min(1, Math.max(0, (value - min) / (max - min)));
  return Math.round(10 * (start + share * (end - start))) / 10;
}

const ticksOf = ({ min, max, ticks }: PlotAxis): readonly number[] =>
  ticks ??
  Array.from(
    { length: DEFAULT_TICK_COUNT + 1 },
    (_, tick) => min + (tick / DEFAULT_TICK_COUNT) * (max - min),
  );

/** A little room around the values. */
export function paddedRange(values: readonly number[]): readonly [from: number, to: number] {
  const known = values.filter(Number.isFinite);
  const [least, most] = [Math.min(...known), Math.max(...known)];
  if (known.length === 0) return [0, 1];
  const room = most === least ? Math.max(1e-3, Math.abs(most) / 10) : (most - least) / 20;
  return [least - room, most + room];
}
