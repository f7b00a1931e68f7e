import { describe, expect, it } from "vitest";
// Region metrics: Triton's names and meanings, and no series of client-supplied names or unloaded versions.
import { coreErrors } from "../../src/core/common-errors.ts";
import { registryErrors } from "../../src/registry/errors.ts";
import type { LoadedVersion } from "../../src/telemetry/region-metric-definitions.ts";
import {
  createRegionMetrics,
  type InferRequestRecord,
  type RegionMetrics,
  type RunRecord,
} from "../../src/telemetry/region-metrics.ts";

const tier = { model: "mood", version: 1, tier: "heavy" };
const createRun = (fields: Partial<RunRecord> = {}): RunRecord => ({
  tier,
  requestCount: 1,
  rows: 1,
  reason: "idle",
  queueTimesMs: [0],
  inputMs: 1,
  inferMs: 10,
  outputMs: 2,
  hasFailed: false,
  ...fields,
});
const createRequest = (fields: Partial<InferRequestRecord> = {}): InferRequestRecord => ({
  tier,
  durationMs: 20,
  preprocessMs: 0,
  isCoalesced: false,
  failure: undefined,
  ...fields,
});
const loadedEvent = { event: "model_loaded", model: "mood", version: 1 };

/** Reads the samples of a metric by their labels in text format. */
async function readSamples(metrics: RegionMetrics, name: string): Promise<Record<string, number>> {
  const lines = (await metrics.render())
    .split("\n")
    .filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `));
  return Object.fromEntries(
    lines.map((line) => [
      line.slice(name.length, line.lastIndexOf(" ")),
      Number(line.slice(line.lastIndexOf(" ") + 1)),
    ]),
  );
}

const MODEL = '{model="mood",version="1"}';
const TIER = '{model="mood",version="1",tier="heavy"}';

/** Reads the values of several metrics of the model. */
const readModelValues = async (metrics: RegionMetrics, names: readonly string[]) =>
  Object.fromEntries(
    await Promise.all(
      names.map(async (name) => [name, (await readSamples(metrics, name))[MODEL]] as const),
    ),
  );

describe("metrics of runs and requests", () => {
  it("have Triton's meaning: each request of a shared run counts its whole compute time", async () => {
    const metrics = createRegionMetrics();
    metrics.recordRun(createRun({ requestCount: 3, rows: 4, queueTimesMs: [9, 5, 1] }));
    for (const durationMs of [22, 18, 14])
      metrics.recordInferRequest(createRequest({ durationMs, preprocessMs: 0.5 }));
    metrics.recordInferRequest(createRequest({ failure: "REJECTED" }));
    const expected = {
      nv_inference_request_success: 3,
      nv_inference_count: 4,
      nv_inference_exec_count: 1,
      nv_inference_request_duration_us: 54_000,
      nv_inference_queue_duration_us: 15_000,
      nv_inference_compute_input_duration_us: 4_500,
      nv_inference_compute_infer_duration_us: 30_000,
      nv_inference_compute_output_duration_us: 6_000,
    };
    expect(await readModelValues(metrics, Object.keys(expected))).toEqual(expected);
    expect(await readSamples(metrics, "nv_inference_request_failure")).toEqual({
      '{model="mood",version="1",reason="REJECTED"}': 1,
    });
  });

  it("count coalesced requests as successes without a run", async () => {
    const metrics = createRegionMetrics();
    metrics.recordRun(createRun());
    for (const isCoalesced of [false, true, true])
      metrics.recordInferRequest(createRequest({ isCoalesced }));
    const expected = {
      nv_inference_request_success: 3,
      nv_inference_exec_count: 1,
      edgetier_region_shared_requests_total: 2,
    };
    expect(await readModelValues(metrics, Object.keys(expected))).toEqual(expected);
  });

  it("contain rows, queue times and reasons of runs, without failed ones", async () => {
    const metrics = createRegionMetrics();
    metrics.recordRun(
      createRun({ rows: 3, requestCount: 2, queueTimesMs: [4, 2], reason: "full" }),
    );
    metrics.recordRun(createRun({ hasFailed: true }));
    expect(await readSamples(metrics, "edgetier_region_batch_rows_sum")).toEqual({ [TIER]: 3 });
    expect(await readSamples(metrics, "edgetier_region_queue_wait_seconds_count")).toEqual({
      [TIER]: 2,
    });
    expect(await readSamples(metrics, "edgetier_region_queue_wait_seconds_sum")).toEqual({
      [TIER]: 0.006,
    });
    expect(await readSamples(metrics, "edgetier_region_run_seconds_sum")).toEqual({ [TIER]: 0.01 });
    expect(await readSamples(metrics, "edgetier_region_runs_failed_total")).toEqual({ [TIER]: 1 });
    expect(await readSamples(metrics, "edgetier_region_dispatches_total")).toEqual({
      '{model="mood",version="1",tier="heavy",reason="full"}': 1,
      '{model="mood",version="1",tier="heavy",reason="idle"}': 1,
    });
  });
});

describe("metrics of runs", () => {
  it("accept a clock that was set back", async () => {
    const metrics = createRegionMetrics();
    metrics.recordRun(createRun({ queueTimesMs: [-5], inferMs: -1 }));
    metrics.recordInferRequest(createRequest({ durationMs: -1 }));
    expect(await readSamples(metrics, "nv_inference_queue_duration_us")).toEqual({ [MODEL]: 0 });
  });
});

describe("metrics of model versions", () => {
  it("start at zero when a version is loaded", async () => {
    const metrics = createRegionMetrics();
    metrics.recordEvent(loadedEvent);
    expect(await readSamples(metrics, "nv_inference_request_success")).toEqual({ [MODEL]: 0 });
    expect(Object.keys(await readSamples(metrics, "nv_inference_request_failure"))).toEqual(
      ["REJECTED", "CANCELED", "BACKEND", "OTHER"].map(
        (reason) => `{model="mood",version="1",reason="${reason}"}`,
      ),
    );
  });

  it("disappear when a version is unloaded, but not when it is evicted", async () => {
    const metrics = createRegionMetrics();
    for (const version of [1, 2]) {
      metrics.recordEvent({ ...loadedEvent, version });
      metrics.recordRun(createRun({ tier: { ...tier, version } }));
      metrics.recordInferRequest(createRequest({ tier: { ...tier, version }, failure: "BACKEND" }));
    }
    const readVersionLines = async () =>
      (await metrics.render()).split("\n").filter((line) => line.includes('version="1"'));
    metrics.recordEvent({ event: "model_evicted", model: "mood", version: 1 });
    expect(await readVersionLines()).not.toEqual([]);
    metrics.recordEvent({ event: "model_unloaded", model: "mood", version: 1 });
    metrics.recordRun(createRun()); // It was in flight.
    metrics.recordInferRequest(createRequest());
    expect(await readVersionLines()).toEqual([]);
    expect(await readSamples(metrics, "nv_inference_exec_count")).toEqual({
      '{model="mood",version="2"}': 1,
    });
  });
});

describe("metrics of log events", () => {
  it("count loads, unloads, evictions, skipped providers and workers", async () => {
    const metrics = createRegionMetrics();
    const events = [
      loadedEvent,
      {
        event: "model_failed",
        model: "mood",
        version: 2,
        error: coreErrors.sessionFailed("broken"),
      },
      { event: "model_unloaded", model: "mood", version: 1 },
      { event: "model_evicted", model: "mood", version: 1 },
      { event: "provider_skipped", name: "cuda" },
      { event: "session_worker_started" },
      { event: "session_worker_ended" },
      { event: "session_given_up" },
      { event: "unknown_event", model: "mood" },
    ];
    for (const event of events) metrics.recordEvent(event);
    expect(await readSamples(metrics, "edgetier_region_model_loads_total")).toEqual({
      '{model="mood",outcome="loaded"}': 1,
      '{model="mood",outcome="failed"}': 1,
    });
    expect(await readSamples(metrics, "edgetier_region_model_unloads_total")).toEqual({
      '{model="mood"}': 1,
    });
    expect(await readSamples(metrics, "edgetier_region_model_evictions_total")).toEqual({
      '{model="mood"}': 1,
    });
    expect(await readSamples(metrics, "edgetier_region_providers_skipped_total")).toEqual({
      '{provider="cuda"}': 1,
    });
    expect(await readSamples(metrics, "edgetier_region_session_workers_total")).toEqual({
      '{event="started"}': 1,
      '{event="ended"}': 1,
      '{event="given_up"}': 1,
    });
  });

  it.each([
    registryErrors.modelNotFound("secret-1"),
    registryErrors.versionNotFound("secret-1", 999),
  ])("have no label with a client-supplied model name: $code", async (error) => {
    const metrics = createRegionMetrics();
    metrics.recordEvent({ event: "model_failed", model: "secret-1", version: 999, error });
    expect(await metrics.render()).not.toMatch(/secret|999/);
  });
});

const LOADED_VERSION: LoadedVersion = {
  model: "mood",
  version: 1,
  memoryBytes: 700,
  tiers: [
    {
      tier: "heavy",
      providers: [
        { name: "cuda", state: "skipped" },
        { name: "cpu", state: "used" },
      ],
    },
  ],
};

describe("gauges", () => {
  it("have the current queues, memory, providers, requests and state", async () => {
    const metrics = createRegionMetrics();
    let queues = [{ tier, requestCount: 2, rows: 5, oldestAgeMs: 250, runsInFlight: 1 }];
    metrics.setGaugeSources({
      queues: () => queues,
      models: () => [LOADED_VERSION],
      state: () => "serving",
      inFlight: () => 4,
    });
    expect(await readSamples(metrics, "nv_inference_pending_request_count")).toEqual({
      [MODEL]: 2,
    });
    expect(await readSamples(metrics, "edgetier_region_queue_rows")).toEqual({ [TIER]: 5 });
    expect(await readSamples(metrics, "edgetier_region_queue_age_seconds")).toEqual({
      [TIER]: 0.25,
    });
    expect(await readSamples(metrics, "edgetier_region_runs_in_progress")).toEqual({ [TIER]: 1 });
    expect(await readSamples(metrics, "edgetier_region_model_bytes")).toEqual({ [MODEL]: 700 });
    expect(await readSamples(metrics, "edgetier_region_requests_in_flight")).toEqual({ "": 4 });
    expect(await readSamples(metrics, "edgetier_region_provider_info")).toEqual({
      '{model="mood",version="1",tier="heavy",provider="cuda",state="skipped"}': 1,
      '{model="mood",version="1",tier="heavy",provider="cpu",state="used"}': 1,
    });
    expect(await readSamples(metrics, "edgetier_region_state")).toEqual({
      '{state="starting"}': 0,
      '{state="serving"}': 1,
      '{state="leaving"}': 0,
      '{state="draining"}': 0,
    });
    queues = [];
    expect(await readSamples(metrics, "edgetier_region_queue_rows")).toEqual({});
    expect(await readSamples(metrics, "nv_inference_pending_request_count")).toEqual({
      [MODEL]: 0,
    });
  });
});

describe("the text format", () => {
  it("has a help text and a type for each metric", async () => {
    const metrics = createRegionMetrics({ process: true });
    expect(metrics.contentType).toMatch(/^text\/plain; version=0\.0\.4/);
    const text = await metrics.render();
    const names = [...text.matchAll(/^# HELP (\S+) \S/gm)].map(([, name]) => name);
    expect(names).toEqual(
      [...text.matchAll(/^# TYPE (\S+) (?:counter|gauge|histogram|summary)$/gm)].map(
        ([, name]) => name,
      ),
    );
    expect(names).toEqual(
      expect.arrayContaining([
        "nv_inference_count",
        "edgetier_region_state",
        "process_cpu_seconds_total",
        "nodejs_eventloop_lag_seconds",
      ]),
    );
  });
});
