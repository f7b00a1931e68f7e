// Renders a plot as SVG without scripts: lines and points over two axes. The page defines the
// colors (report-page.ts).

export interface PlotSeries {
  readonly name: string;
  readonly kind: "line" | "dashed" | "points" | "chosen";
  /** Index of one of the page's colors, from 0. */
  readonly color: number;
  readonly points: readonly (readonly [x: number, y: number])[];
}

export interface PlotAxis {
  readonly label: string;
  readonly min: number;
  readonly max: number;
  /** Default: five equal steps. */
  readonly ticks?: readonly number[];
  readonly format: (value: number) => string;
}

export interface Plot {
  /** Id that is unique in the page. */
  readonly id: string;
  readonly title: string;
  /** Text alternative of the plot. */
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

/** Draws values outside an axis at its end. */
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
  const seriesGroups = series.map((plotted) => renderSeries(plotted, left, top));
  return `<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-labelledby="${id}-title ${id}-desc"><title id="${id}-title">${escapeXml(title)}</title><desc id="${id}-desc">${escapeXml(description)}</desc>${grid.join("")}${labels.join("")}${seriesGroups.join("")}</svg>`;
}

function renderSeries(
  { name, kind, color, points }: PlotSeries,
  left: (x: number) => number,
  top: (y: number) => number,
): string {
  const finitePoints = points.filter(([x, y]) => Number.isFinite(x) && Number.isFinite(y));
  const group = (inside: string) =>
    `<g class="series ${kind} color-${color}"><title>${escapeXml(name)}</title>${inside}</g>`;
  if (kind === "line" || kind === "dashed")
    return group(
      finitePoints.length === 0
        ? ""
        : `<path d="M${finitePoints.map(([x, y]) => `${left(x)} ${top(y)}`).join("L")}"/>`,
    );
  return group(
    finitePoints
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

/** Returns the range of the finite values with a small margin. */
export function paddedRange(values: readonly number[]): readonly [min: number, max: number] {
  const finite = values.filter(Number.isFinite);
  if (finite.length === 0) return [0, 1];
  const [min, max] = [Math.min(...finite), Math.max(...finite)];
  const margin = max === min ? Math.max(1e-3, Math.abs(max) / 10) : (max - min) / 20;
  return [min - margin, max + margin];
}
