import { describe, expect, it } from "vitest";
import { MAX_DATA_POINT_DOUBLES, writeDataPoints } from "../../src/telemetry/analytics-engine.ts";
import {
  EDGE_METRICS,
  type MetricDefinition,
} from "../../src/telemetry/edge-metric-definitions.ts";
import { formatPrometheusText } from "../../src/telemetry/prometheus-text.ts";
import { createSeriesTable } from "../../src/telemetry/series-table.ts";

function createSampleSeries() {
  const table = createSeriesTable(10);
  table.record("edgetier_requests_total", ["predict", 'a"b\\c\nd', "200"], 3, 0);
  table.record("edgetier_deadline_seconds", ["toy"], 0.2, 0);
  for (const value of [0.004, 0.02, 0.02, 99])
    table.record("edgetier_region_call_duration_seconds", ["eu"], value, 0);
  return table.list();
}

describe("Prometheus' text format", () => {
  const lines = formatPrometheusText(createSampleSeries()).split("\n");

  it("escapes label values", () => {
    expect(lines).toContain(
      'edgetier_requests_total{route="predict",model="a\\"b\\\\c\\nd",status="200"} 3',
    );
    expect(lines).toContain('edgetier_deadline_seconds{model="toy"} 0.2');
  });

  it("writes cumulative buckets, sum and count of a histogram", () => {
    const name = "edgetier_region_call_duration_seconds";
    const bucket = (bound: string, count: number) =>
      `${name}_bucket{region="eu",le="${bound}"} ${count}`;
    expect(lines).toEqual(
      expect.arrayContaining([
        bucket("0.0025", 0),
        bucket("0.005", 1),
        bucket("0.025", 3),
        bucket("10", 3),
        bucket("+Inf", 4),
        `${name}_count{region="eu"} 4`,
      ]),
    );
    expect(Number(lines.find((line) => line.startsWith(`${name}_sum`))?.split(" ")[1])).toBeCloseTo(
      99.044,
      9,
    );
  });

  it("writes the type of every metric once", () => {
    expect(lines.filter((line) => line.startsWith("# TYPE"))).toEqual(
      Object.entries<MetricDefinition>(EDGE_METRICS).map(
        ([name, { kind }]) => `# TYPE ${name} ${kind}`,
      ),
    );
    expect(lines.at(-1)).toBe("");
  });
});

describe("Analytics Engine data points", () => {
  it("represent one series each, within the limit of doubles", () => {
    const points: unknown[] = [];
    writeDataPoints(
      { writeDataPoint: (point) => points.push(point) },
      { series: createSampleSeries() },
    );
    expect(points).toEqual([
      {
        indexes: ["edgetier_requests_total"],
        blobs: ["edgetier_requests_total", "predict", 'a"b\\c\nd', "200"],
        doubles: [3],
      },
      {
        indexes: ["edgetier_deadline_seconds"],
        blobs: ["edgetier_deadline_seconds", "toy"],
        doubles: [0.2],
      },
      {
        indexes: ["edgetier_region_call_duration_seconds"],
        blobs: ["edgetier_region_call_duration_seconds", "eu"],
        doubles: [4, expect.closeTo(99.044, 9), 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 1],
      },
    ]);
    for (const definition of Object.values<MetricDefinition>(EDGE_METRICS))
      expect(
        definition.kind === "histogram" ? 2 + definition.buckets.length + 1 : 1,
      ).toBeLessThanOrEqual(MAX_DATA_POINT_DOUBLES);
  });
});
