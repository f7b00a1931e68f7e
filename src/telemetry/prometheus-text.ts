// Prometheus text format, version 0.0.4.

import { EDGE_METRICS, type MetricDefinition } from "./edge-metric-definitions.ts";
import type { Series } from "./series-table.ts";

export const PROMETHEUS_MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8";

/** Formats all metrics in the order of edge-metric-definitions.ts, including metrics without series. */
export function formatPrometheusText(series: readonly Series[]): string {
  const lines: string[] = [];
  for (const [name, definition] of Object.entries<MetricDefinition>(EDGE_METRICS)) {
    lines.push(
      `# HELP ${name} ${escapeHelp(definition.help)}`,
      `# TYPE ${name} ${definition.kind}`,
    );
    for (const entry of series)
      if (entry.name === name) lines.push(...formatSamples(entry, definition));
  }
  return `${lines.join("\n")}\n`;
}

function formatSamples(series: Series, definition: MetricDefinition): string[] {
  const { name } = series;
  const pairs = definition.labels.map(
    (label, index) => `${label}="${escapeLabelValue(series.labels[index] ?? "")}"`,
  );
  const sample = (suffix: string, value: number, ...extraPairs: readonly string[]) => {
    const labels = [...pairs, ...extraPairs].join(",");
    return `${name}${suffix}${labels === "" ? "" : `{${labels}}`} ${value}`;
  };
  if (series.kind !== "histogram" || definition.kind !== "histogram")
    return series.kind === "histogram" ? [] : [sample("", series.value)];
  let count = 0;
  const buckets = series.counts.map((bucketCount, index) => {
    count += bucketCount;
    const bound = definition.buckets[index];
    return sample("_bucket", count, `le="${bound === undefined ? "+Inf" : bound}"`);
  });
  return [...buckets, sample("_sum", series.sum), sample("_count", count)];
}

const escapeHelp = (text: string): string => text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
const escapeLabelValue = (text: string): string => escapeHelp(text).replaceAll('"', '\\"');
