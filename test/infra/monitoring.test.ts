// Rules and dashboards of infra/monitoring: they refer to existing metrics and labels, and dashboards match the metric
// definitions. With promtool, the rules fire in their test situations.
import { execFileSync, spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import * as z from "zod";
import { dashboards } from "../../infra/monitoring/dashboards.ts";
import {
  edgeMetrics,
  type MetricInfo,
  regionMetrics,
} from "../../infra/monitoring/metric-catalog.ts";

const FOLDER = new URL("../../infra/monitoring/", import.meta.url);
const read = (file: string) => readFileSync(new URL(file, FOLDER), "utf8");
const RULES = "prometheus/edgetier.rules.yml";

const RULE_TESTS = ["edgetier.rules.test.yml", "edgetier.long-window.test.yml"];
const rulesTest = z.object({
  tests: z.array(
    z.object({
      promql_expr_test: z.array(
        z.object({ exp_samples: z.array(z.object({ labels: z.string() })) }),
      ),
    }),
  ),
});

const ruleSchema = z.strictObject({
  record: z.string().optional(),
  alert: z.string().optional(),
  expr: z.string(),
  for: z.string().optional(),
  labels: z.strictObject({ severity: z.enum(["page", "ticket"]) }).optional(),
  annotations: z.strictObject({ summary: z.string(), remedy: z.string().min(40) }).optional(),
});
const groups = z
  .object({ groups: z.array(z.object({ name: z.string(), rules: z.array(ruleSchema) })) })
  .parse(parse(read(RULES))).groups;
const rules = groups.flatMap((group) => group.rules);
const alerts = rules.filter(({ alert }) => alert !== undefined);

/** Metrics by series name. A histogram has three series. */
const series = new Map<string, MetricInfo>(
  [...edgeMetrics, ...regionMetrics].flatMap((metric) =>
    metric.kind === "histogram"
      ? ["_bucket", "_sum", "_count"].map((end) => [`${metric.name}${end}`, metric] as const)
      : [[metric.name, metric] as const],
  ),
);
/** Labels that Prometheus adds, and the label of buckets. */
const SCRAPE_LABELS = ["instance", "job", "le"];
const recordedNames = new Set(rules.flatMap(({ record }) => record ?? []));

/** Finds references to unknown metrics and labels. */
function findExpressionProblems(expr: string): string[] {
  const references = [...expr.matchAll(/\b((?:edgetier|nv)[a-z0-9_:]*)(?:\{([^}]*)\})?/g)];
  return references.flatMap(([, name = "", matchers = ""]) => {
    if (name.includes(":")) return recordedNames.has(name) ? [] : [`no rule records ${name}`];
    const metric = series.get(name);
    if (metric === undefined) return [`there is no metric ${name}`];
    const labels = [...matchers.matchAll(/([a-z_]+) *(?:=~|!~|!=|=)/g)].map(
      ([, label = ""]) => label,
    );
    return labels
      .filter((label) => ![...metric.labels, ...SCRAPE_LABELS].includes(label))
      .map((label) => `${name} has no label ${label}`);
  });
}

/** Finds aggregation labels that no metric has. */
const findLostLabels = (expr: string) =>
  [...expr.matchAll(/\b(?:by|on|group_left) *\(([^)]*)\)/g)]
    .flatMap(([, labels = ""]) => labels.split(",").map((label) => label.trim()))
    .filter(
      (label) =>
        label !== "" &&
        ![...SCRAPE_LABELS, ...[...series.values()].flatMap((metric) => metric.labels)].includes(
          label,
        ),
    );

describe("the rules", () => {
  it("refer to existing metrics and labels", () => {
    expect(
      rules.flatMap(({ expr }) => [...findExpressionProblems(expr), ...findLostLabels(expr)]),
    ).toEqual([]);
    expect(
      findExpressionProblems(
        'rate(edgetier_requests_total{rout="predict"}[5m]) / edgetier_request_total',
      ),
    ).toEqual([
      "edgetier_requests_total has no label rout",
      "there is no metric edgetier_request_total",
    ]);
  });

  it("have a severity, a summary and a remedy for each alert", () => {
    expect(
      alerts.filter(({ labels, annotations }) => labels === undefined || annotations === undefined),
    ).toEqual([]);
    expect(new Set(alerts.map(({ alert }) => alert)).size).toBe(alerts.length);
    expect(alerts.length).toBeGreaterThan(15);
  });

  it("have a test for each alert in which it fires", () => {
    const firing = RULE_TESTS.flatMap((file) =>
      rulesTest
        .parse(parse(read(`prometheus/${file}`)))
        .tests.flatMap((test) =>
          test.promql_expr_test.flatMap(({ exp_samples: samples }) =>
            samples.map(({ labels }) => /alertname="(\w+)"/.exec(labels)?.[1]),
          ),
        ),
    );
    expect(alerts.map(({ alert }) => alert).filter((alert) => !firing.includes(alert))).toEqual([]);
  });
});

const hasPromtool = spawnSync("promtool", ["--version"]).status === 0;
if (!hasPromtool)
  console.warn(
    "promtool is not on the PATH; its rule tests are skipped. Install Prometheus to run them.",
  );

describe.skipIf(!hasPromtool)("the rules in promtool (needs it on the PATH)", () => {
  const promtool = (...args: readonly string[]) =>
    execFileSync("promtool", args, {
      cwd: fileURLToPath(new URL("prometheus/", FOLDER)),
      encoding: "utf8",
      stdio: "pipe",
    });

  it("are well-formed", () => {
    expect(promtool("check", "rules", "edgetier.rules.yml")).toContain(
      `SUCCESS: ${rules.length} rules found`,
    );
  });

  it.each(RULE_TESTS)("fire only in their test situations: %s", { timeout: 120_000 }, (file) => {
    expect(promtool("test", "rules", file)).toContain("SUCCESS");
  });
});

describe("the dashboards", () => {
  it("match the output of `npm run monitoring`", () => {
    expect(readdirSync(new URL("grafana/", FOLDER)).toSorted()).toEqual(
      dashboards.map(({ file }) => file).toSorted(),
    );
    for (const { file, json } of dashboards)
      expect(JSON.parse(read(`grafana/${file}`)), `${file}: run \`npm run monitoring\``).toEqual(
        json,
      );
  });

  const panelSchema = z.object({
    id: z.int(),
    title: z.string(),
    gridPos: z.object({ x: z.int(), y: z.int(), w: z.int(), h: z.int() }),
    targets: z.array(z.object({ expr: z.string() })).default([]),
  });
  const panelsOf = (json: object) => z.object({ panels: z.array(panelSchema) }).parse(json).panels;

  it.each(dashboards)(
    "$file has every metric, no unknown one, and no overlapping panels",
    ({ file, json }) => {
      const panels = panelsOf(json);
      const exprs = panels.flatMap(({ targets }) => targets.map(({ expr }) => expr));
      expect(
        exprs.flatMap((expr) => [...findExpressionProblems(expr), ...findLostLabels(expr)]),
      ).toEqual([]);
      const metrics = file === "edge.json" ? edgeMetrics : regionMetrics;
      expect(metrics.filter(({ name }) => !exprs.some((expr) => expr.includes(name)))).toEqual([]);
      expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
      const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
        Array.from({ length: w * h }, (_, cell) => `${x + (cell % w)} ${y + Math.floor(cell / w)}`),
      );
      expect(new Set(cells).size).toBe(cells.length);
    },
  );
});
