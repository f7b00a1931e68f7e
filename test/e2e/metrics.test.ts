// Tests metrics of several isolates, which several shards of the aggregator sum up: every isolate exposes the same sums.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { bundleWorker } from "../../src/cli/local/upload.ts";
import { type MetricsEdge, startMetricsEdge } from "../../src/cli/local/workerd-edge.ts";
import { metricsSnapshotSchema } from "../../src/protocol/metrics-snapshot.ts";

const ISOLATES = 8;
const REQUESTS_PER_ISOLATE = 25;
/** Nothing is asked of a store. */
const VARIABLES = {
  EDGETIER_S3_ENDPOINT: "http://127.0.0.1:9",
  EDGETIER_S3_BUCKET: "none",
  EDGETIER_S3_ACCESS_KEY_ID: "none",
  EDGETIER_S3_SECRET_ACCESS_KEY: "none",
  EDGETIER_METRICS_SCOPE: "metadata",
  EDGETIER_METRICS_SHARDS: "3",
};

let folder: string;
let edge: MetricsEdge;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-shards-"));
  edge = await startMetricsEdge(await bundleWorker(join(folder, "worker.bundle")), VARIABLES, {
    isolates: ISOLATES,
    folder,
  });
});
afterAll(async () => {
  await edge?.stop();
  await rm(folder, { recursive: true, force: true });
});

it("is in every isolate's GET /metrics", async () => {
  const sent = edge.urls.flatMap((url) =>
    Array.from({ length: REQUESTS_PER_ISOLATE }, () => fetch(`${url}/v1/nothing`)),
  );
  expect(new Set((await Promise.all(sent)).map(({ status }) => status))).toEqual(new Set([404]));
  const counted = async (url: string, name: string) => {
    const { series } = metricsSnapshotSchema.parse(
      await (await fetch(`${url}/metrics`, { headers: { accept: "application/json" } })).json(),
    );
    return series.reduce(
      (sum, one) =>
        one.kind === "counter" && one.name === name && (one.labels["status"] ?? "404") === "404"
          ? sum + one.value
          : sum,
      0,
    );
  };
  for (const url of edge.urls)
    await expect
      .poll(() => counted(url, "edgetier_requests_total"), { timeout: 10_000 })
      .toBe(ISOLATES * REQUESTS_PER_ISOLATE);
  expect(await counted(edge.url, "edgetier_isolates_started_total")).toBe(ISOLATES);
});
