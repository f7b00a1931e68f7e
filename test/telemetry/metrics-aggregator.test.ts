// Metrics aggregator: the Durable Object in workerd, with reports of several isolates, and crashes.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "esbuild";
import { afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { WorkerUpload } from "../../src/cli/local/upload.ts";
import { type MetricsEdge, startMetricsEdge } from "../../src/cli/local/workerd-edge.ts";
import type { MetricsBatch } from "../../src/telemetry/metrics-aggregate.ts";
import type { Series } from "../../src/telemetry/series-table.ts";

let upload: WorkerUpload;
beforeAll(async () => {
  const { outputFiles } = await build({
    entryPoints: [join(import.meta.dirname, "../support/aggregator-worker.ts")],
    bundle: true,
    format: "esm",
    write: false,
    external: ["cloudflare:workers"],
  });
  upload = {
    modules: outputFiles.map(({ contents }) => ({
      name: "main.js",
      kind: "script",
      bytes: contents,
    })),
    variables: {},
    compatibilityDate: "2026-10-01",
    compatibilityFlags: ["no_nodejs_compat"],
  };
});

let folder: string;
let edge: MetricsEdge;
const start = async (isolates = 1) =>
  (edge = await startMetricsEdge(upload, {}, { folder, isolates }));
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-metrics-"));
  await start();
});
afterEach(async () => {
  await edge.stop();
  await rm(folder, { recursive: true, force: true });
});

async function crash(): Promise<void> {
  process.kill(edge.pid, "SIGKILL");
  await edge.stop();
}

const requests = (value: number, status = "200"): Series => ({
  kind: "counter",
  name: "edgetier_requests_total",
  labels: ["predict", "toy", status],
  atMs: 1,
  value,
});
const report = async (batch: MetricsBatch, url = edge.url) =>
  (await fetch(`${url}/report`, { method: "POST", body: JSON.stringify(batch) })).status;
const read = async (): Promise<Series[]> =>
  (await (await fetch(`${edge.url}/read`)).json()) as Series[];

describe("the aggregator", () => {
  it("sums the reports of isolates, each batch once", async () => {
    await edge.stop();
    await start(3);
    const batches = edge.urls.flatMap((url, index) =>
      [1, 2].map((sequence) => ({
        url,
        batch: { isolate: `i-${index}`, sequence, series: [requests(10 ** index)] },
      })),
    );
    for (const { url, batch } of batches)
      for (const status of await Promise.all([report(batch, url), report(batch, url)]))
        expect(status).toBe(204);
    expect(await read()).toEqual([requests(222)]);
  });

  it("preserves confirmed batches after a crash, and does not add them again", async () => {
    const batch = { isolate: "i", sequence: 1, series: [requests(3)] };
    expect(await report(batch)).toBe(204);
    await crash();
    await start();
    expect(await read()).toEqual([requests(3)]);
    expect(await report(batch)).toBe(204);
    expect(await report({ ...batch, sequence: 2 })).toBe(204);
    expect(await read()).toEqual([requests(6)]);
  });

  it("preserves exposed values after an immediate crash", async () => {
    const reporting = report({ isolate: "i", sequence: 1, series: [requests(3)] }).catch(() => {}); // The batch is not stored yet.
    let exposed = await read();
    while (exposed.length === 0) exposed = await read();
    await crash();
    await reporting;
    await start();
    expect(await read()).toEqual(exposed);
  });

  it("stores more than one row of its storage can hold", async () => {
    const series = Array.from({ length: 9_000 }, (_, index) =>
      requests(1, `${index} ${"x".repeat(200)}`),
    );
    for (let part = 0; part < 9; part++)
      await report({
        isolate: "i",
        sequence: part + 1,
        series: series.slice(part * 1_000, (part + 1) * 1_000),
      });
    await edge.stop();
    await start();
    expect(await read()).toEqual(series);
  });
});
