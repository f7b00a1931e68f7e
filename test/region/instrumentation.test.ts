// Instrumentation of the region: statistics and metrics over HTTP, from real runs.
import { beforeEach, describe, expect, it } from "vitest";
import {
  createInstrumentation,
  type Instrumentation,
} from "../../functions/region/instrumentation.ts";
import { systemClock } from "../../src/core/clock.ts";
import { createExecutor } from "../../src/region/server/batching/create-executor.ts";
import {
  createRegionFixture,
  postRequest,
  publishMoodModel,
  createTextBody,
  type RegionFixture,
} from "./region-fixture.ts";

let region: RegionFixture;
let observers: Instrumentation;
let log: object[];

beforeEach(async () => {
  log = [];
  observers = createInstrumentation({ clock: systemClock, log: (event) => log.push(event) });
  const { statistics, metrics, onOutcome, onResponse, onRun } = observers;
  const executor = createExecutor({ onRun });
  region = createRegionFixture({ executor, statistics, metrics, onOutcome, onResponse });
  observers.registerGauges({
    executor,
    repository: region.repository,
    lifecycle: region.lifecycle,
  });
  await publishMoodModel(region.store);
  await region.store.writeAliases("mood", { stable: 1 }, undefined);
  await region.repository.load("mood");
  forwardEvents();
});

/** Forwards the events of the repository since the last call. */
function forwardEvents(): void {
  for (const event of region.events.splice(0)) observers.onRepositoryEvent(event);
}

const inferTexts = async (...texts: string[]) =>
  (await region.app.request("/v2/models/mood/infer", postRequest(createTextBody(texts)))).status;
const readStatistics = async (path = "/v2/models/mood/versions/1/stats") =>
  (await (await region.app.request(path)).json()).model_stats;
async function readSample(series: string): Promise<number | undefined> {
  const response = await region.app.request("/metrics");
  expect(response.headers.get("content-type")).toMatch(/^text\/plain; version=0\.0\.4/);
  const line = (await response.text())
    .split("\n")
    .find((sample) => sample.startsWith(`${series} `));
  return line === undefined ? undefined : Number(line.slice(series.length));
}

describe("the statistics of a region", () => {
  it("count requests, rows and runs, and their durations", async () => {
    const startedMs = Date.now();
    expect(
      await Promise.all([
        inferTexts("good", "bad"),
        inferTexts("good"),
        inferTexts("bad"),
        inferTexts(" "),
      ]),
    ).toEqual([200, 200, 200, 400]);
    const [{ inference_stats: stats, batch_stats: sizes, ...counts }] = await readStatistics();
    expect(counts).toEqual({
      name: "mood",
      version: "1",
      last_inference: expect.any(Number),
      inference_count: 4,
      execution_count: expect.any(Number),
      memory_usage: [],
    });
    expect(counts.last_inference).toBeGreaterThanOrEqual(startedMs);
    expect(
      Object.fromEntries(
        Object.entries<{ count: number }>(stats).map(([name, { count }]) => [name, count]),
      ),
    ).toEqual({
      success: 3,
      fail: 0,
      queue: 3,
      compute_input: 3,
      compute_infer: 3,
      compute_output: 3,
      cache_hit: 0,
      cache_miss: 0,
    });
    const parts =
      stats.queue.ns + stats.compute_input.ns + stats.compute_infer.ns + stats.compute_output.ns;
    expect(stats.compute_infer.ns).toBeGreaterThan(0);
    expect(parts).toBeLessThanOrEqual(stats.success.ns);
    expect(
      sizes.reduce(
        (
          sum: number,
          { batch_size, compute_infer }: { batch_size: number; compute_infer: { count: number } },
        ) => sum + batch_size * compute_infer.count,
        0,
      ),
    ).toBe(4);
    expect(
      sizes.reduce(
        (sum: number, { compute_infer }: { compute_infer: { count: number } }) =>
          sum + compute_infer.count,
        0,
      ),
    ).toBe(counts.execution_count);
  });
});

describe("the statistics routes", () => {
  it("report a version, a model, or all models", async () => {
    await publishMoodModel(region.store, { version: 2 });
    await publishMoodModel(region.store, { model: "other" });
    for (const path of [
      "/v2/models/mood/versions/2/infer",
      "/v2/models/other/versions/1/infer",
      "/v2/models/mood/infer",
    ])
      await region.app.request(path, postRequest(createTextBody(["good"])));
    const names = async (path: string) =>
      (await readStatistics(path))
        .map(
          ({ name, version, inference_count }: Record<string, unknown>) =>
            `${name}@${version}: ${inference_count}`,
        )
        .toSorted();
    expect(await names("/v2/models/stats")).toEqual(["mood@1: 1", "mood@2: 1", "other@1: 1"]);
    expect(await names("/v2/models/mood/stats")).toEqual(["mood@1: 1", "mood@2: 1"]);
    expect(await names("/v2/models/mood/versions/2/stats")).toEqual(["mood@2: 1"]);
    expect(await names("/v2/models/mood/versions/stable/stats")).toEqual(["mood@1: 1"]);
  });
});

describe("the metrics of a region", () => {
  it("agree with the statistics, and expose the current state", async () => {
    await Promise.all([inferTexts("good", "bad"), inferTexts("good"), inferTexts(" ")]);
    const labels = '{model="mood",version="1"}';
    expect({
      successes: await readSample(`nv_inference_request_success${labels}`),
      rows: await readSample(`nv_inference_count${labels}`),
      pending: await readSample(`nv_inference_pending_request_count${labels}`),
    }).toEqual({ successes: 2, rows: 3, pending: 0 });
    expect(await readSample(`nv_inference_exec_count${labels}`)).toBe(
      (await readStatistics())[0].execution_count,
    );
    expect(
      await readSample(
        'edgetier_region_http_request_duration_seconds_count{action="infer",status="200"}',
      ),
    ).toBe(2);
    expect(
      await readSample(
        'edgetier_region_http_request_duration_seconds_count{action="infer",status="400"}',
      ),
    ).toBe(1);
    expect(
      await readSample(
        'edgetier_region_provider_info{model="mood",version="1",tier="heavy",provider="cpu",state="used"}',
      ),
    ).toBe(1);
    expect(
      await readSample('edgetier_region_batch_rows_sum{model="mood",version="1",tier="heavy"}'),
    ).toBe(3);
    expect(await readSample(`edgetier_region_model_bytes${labels}`)).toBeGreaterThan(0);
    expect(await readSample('edgetier_region_state{state="serving"}')).toBe(1);
    expect(await readSample("edgetier_region_requests_in_flight")).toBe(0);
  });
});

describe("the metrics after rejections, unloads and unknown names", () => {
  it("count requests that are rejected after they were accepted", async () => {
    const late = await region.app.request(
      "/v2/models/mood/infer",
      postRequest(createTextBody(["good"], { parameters: { timeout: 1 } })),
    );
    expect(late.status).toBe(503);
    expect(
      await readSample('nv_inference_request_failure{model="mood",version="1",reason="REJECTED"}'),
    ).toBe(1);
    expect((await readStatistics())[0].inference_stats.fail.count).toBe(1);
  });

  it("restart at 0 after an unload, and continue after a load of a loaded model", async () => {
    await inferTexts("good");
    await region.repository.load("mood");
    forwardEvents();
    expect((await readStatistics())[0].inference_count).toBe(1);
    await region.repository.unload("mood");
    forwardEvents();
    expect(await readSample('nv_inference_count{model="mood",version="1"}')).toBeUndefined();
    await region.repository.load("mood");
    forwardEvents();
    expect((await readStatistics())[0].inference_count).toBe(0);
    expect(
      await readSample('edgetier_region_model_loads_total{model="mood",outcome="loaded"}'),
    ).toBe(2);
    expect(await readSample('edgetier_region_model_unloads_total{model="mood"}')).toBe(1);
  });

  it("have no series for names that clients invent", async () => {
    for (const path of [
      "/v2/models/invented/infer",
      "/v2/models/mood/versions/987654/infer",
      "/v2/models/invented/versions/3/infer",
      "/v2/invented",
      "/invented",
    ])
      await region.app.request(path, postRequest(createTextBody(["good"])));
    forwardEvents();
    expect(await (await region.app.request("/metrics")).text()).not.toMatch(/invented|987654/);
  });
});

describe("the log of a region", () => {
  it("contains the repository events", () => {
    expect(log).toEqual([
      expect.objectContaining({ event: "model_loaded", model: "mood", version: 1 }),
    ]);
  });
});
