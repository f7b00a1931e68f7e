// Renders a report as one self-contained HTML page without scripts: text, tables, and plots with
// their legends.

import { escapeXml, type Plot, type PlotSeries, renderSvgPlot } from "./svg-plot.ts";

/** @param parts HTML */
export function renderReportPage(title: string, parts: readonly string[]): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeXml(title)}</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<h1>${escapeXml(title)}</h1>
${parts.join("\n")}
</main>
</body>
</html>
`;
}

export function renderHtmlTable(
  heads: readonly string[],
  rows: readonly (readonly (string | number)[])[],
): string {
  return `<table>
<thead><tr>${heads.map((head) => `<th scope="col">${escapeXml(head)}</th>`).join("")}</tr></thead>
<tbody>${rows.map((cells) => `<tr>${cells.map((cell) => `<td>${escapeXml(String(cell))}</td>`).join("")}</tr>`).join("")}</tbody>
</table>`;
}

/** Renders the plots in a grid that fits the page width. */
export function renderPlots(plots: readonly Plot[]): string {
  return `<div class="plots">
${plots.map((plot) => `<figure><h2>${escapeXml(plot.title)}</h2>${renderSvgPlot(plot)}<figcaption>${plot.series.map(renderLegend).join(" ")}</figcaption></figure>`).join("\n")}
</div>`;
}

const renderLegend = ({ name, color, kind }: PlotSeries) =>
  `<span class="key ${kind} color-${color}">${escapeXml(name)}</span>`;

/**
 * The colors are distinct for red-green color-blind readers, and each kind of series has its own
 * shape.
 */
const STYLE = `
:root { color-scheme: light dark; --ground: #fff; --text: #1b1f24; --quiet: #d0d7de; --c0: #6e7781; --c1: #b35900; --c2: #0969da; --c3: #8250df; }
@media (prefers-color-scheme: dark) { :root { --ground: #0d1117; --text: #e6edf3; --quiet: #30363d; --c0: #8b949e; --c1: #f0883e; --c2: #58a6ff; --c3: #bc8cff; } }
body { margin: 0; background: var(--ground); color: var(--text); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 1040px; margin: 0 auto; padding: 24px 16px; }
table { border-collapse: collapse; margin: 16px 0; } th, td { text-align: left; padding: 4px 16px 4px 0; border-bottom: 1px solid var(--quiet); }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(320px, 1fr)); gap: 24px; }
figure { margin: 0; } h2 { font-size: 1.1rem; } svg { width: 100%; height: auto; font: 12px system-ui, sans-serif; fill: var(--text); }
.grid { stroke: var(--quiet); } .series path { fill: none; stroke-width: 2; } .dashed path { stroke-dasharray: 6 4; } .chosen circle { stroke-width: 2; }
${[0, 1, 2, 3].map((color) => `.color-${color} path { stroke: var(--c${color}); } .color-${color} circle { fill: var(--c${color}); stroke: var(--ground); } .key.color-${color}::before { color: var(--c${color}); }`).join("\n")}
.key { margin-right: 16px; } .key::before { content: "\\2501 "; } .key.dashed::before { content: "\\2505 "; } .key.points::before { content: "\\25CF "; } .key.chosen::before { content: "\\2B24 "; }
`;
