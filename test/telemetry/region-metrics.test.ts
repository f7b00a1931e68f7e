// The region's metrics: Triton's names and meanings, and no series that a client or a version that is gone has made.
import { coreErrors } from "../../src/core/common-errors.ts";
import { registryErrors } from "../../src/registry/errors.ts";
import { describe, expect, it } from "vitest";
import {
  createRegionMetrics,
  type InferRequestRecord,
  type RegionMetrics,
  type RunRecord,
} from "../../src/telemetry/region-metrics.ts";

const tier = { model: "mood", version: 1, tier: "heavy" };
const run = (fields: Partial<RunRecord> = {}): RunRecord => ({
  tier: tier,
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
const outcome = (fields: Partial<InferRequestRecord> = {}): InferRequestRecord => ({
  tier: tier,
  durationMs: 20,
  preprocessMs: 0,
  isCoalesced: false,
  failure: undefined,
  ...fields,
});
const loaded = { event: "model_loaded", model: "mood", version: 1 };

/** The samples of a metric by their labels, as they are written. */
async function samples(metrics: RegionMetrics, name: string): Promise<Record<string, number>> {
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

describe("the region's metrics", () => {
  it("add up as Triton's do: each request of a shared run has all of its compute time", async () => {
    const metrics = createRegionMetrics();
    metrics.recordRun(run({ requestCount: 3, rows: 4, queueTimesMs: [9, 5, 1] }));
    for (const durationMs of [22, 18, 14])
      metrics.recordInferRequest(outcome({ durationMs, preprocessMs: 0.5 }));
    metrics.recordInferRequest(outcome({ failure: "REJECTED" }));
    const value = async (name: string) => (await samples(metrics, name))[MODEL];
    expect(
      await Promise.all(
        [
          "request_success",
          "count",
          "exec_count",
          "request_duration_us",
          "queue_duration_us",
          "compute_input_duration_us",
          "compute_infer_duration_us",
          "compute_output_duration_us",
        ].map((name) => value(`nv_inference_${name}`)),
      ),
    ).toEqual([3, 4, 1, 54_000, 15_000, 4_500, 30_000, 6_000]);
    expect(await samples(metrics, "nv_inference_request_failure")).toEqual({
      '{model="mood",version="1",reason="REJECTED"}': 1,
    });
  });

  it("count requests that another's run has answered as successes without a run", async () => {
    const metrics = createRegionMetrics();
    metrics.recordRun(run());
    for (const isCoalesced of [false, true, true])
      metrics.recordInferRequest(outcome({ isCoalesced }));
    const names = [
      "nv_inference_request_success",
      "nv_inference_exec_count",
      "edgetier_region_shared_requests_total",
    ];
    expect(
      await Promise.all(names.map(async (name) => (await samples(metrics, name))[MODEL])),
    ).toEqual([3, 1, 2]);
  });

  it("tell rows, waits and reasons of runs, and leave out those that failed", async () => {
    const metrics = createRegionMetrics();
    metrics.recordRun(run({ rows: 3, requestCount: 2, queueTimesMs: [4, 2], reason: "full" }));
    metrics.recordRun(run({ hasFailed: true }));
    expect(await samples(metrics, "edgetier_region_batch_rows_sum")).toEqual({ [TIER]: 3 });
    expect(await samples(metrics, "edgetier_region_queue_wait_seconds_count")).toEqual({
      [TIER]: 2,
    });
    expect(await samples(metrics, "edgetier_region_queue_wait_seconds_sum")).toEqual({
      [TIER]: 0.006,
    });
    expect(await samples(metrics, "edgetier_region_run_seconds_sum")).toEqual({ [TIER]: 0.01 });
    expect(await samples(metrics, "edgetier_region_runs_failed_total")).toEqual({ [TIER]: 1 });
    expect(await samples(metrics, "edgetier_region_dispatches_total")).toEqual({
      '{model="mood",version="1",tier="heavy",reason="full"}': 1,
      '{model="mood",version="1",tier="heavy",reason="idle"}': 1,
    });
  });

  it("are there, at zero, as soon as a version is loaded", async () => {
    const metrics = createRegionMetrics();
    metrics.recordEvent(loaded);
    expect(await samples(metrics, "nv_inference_request_success")).toEqual({ [MODEL]: 0 });
    expect(Object.keys(await samples(metrics, "nv_inference_request_failure"))).toEqual(
      ["REJECTED", "CANCELED", "BACKEND", "OTHER"].map(
        (reason) => `{model="mood",version="1",reason="${reason}"}`,
      ),
    );
  });

  it("forget a version that is unloaded, and no other; an evicted one is only away", async () => {
    const metrics = createRegionMetrics();
    for (const version of [1, 2]) {
      metrics.recordEvent({ ...loaded, version });
      metrics.recordRun(run({ tier: { ...tier, version } }));
      metrics.recordInferRequest(outcome({ tier: { ...tier, version }, failure: "BACKEND" }));
    }
    const text = () =>
      metrics
        .render()
        .then((text) => text.split("\n").filter((line) => line.includes('version="1"')));
    metrics.recordEvent({ event: "model_evicted", model: "mood", version: 1 });
    expect(await text()).not.toEqual([]);
    metrics.recordEvent({ event: "model_unloaded", model: "mood", version: 1 });
    metrics.recordRun(run()); // was under way
    metrics.recordInferRequest(outcome());
    expect(await text()).toEqual([]);
    expect(await samples(metrics, "nv_inference_exec_count")).toEqual({
      '{model="mood",version="2"}': 1,
    });
  });

  it("count loads, unloads, evictions, skipped providers and workers", async () => {
    const metrics = createRegionMetrics();
    const events = [
      loaded,
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
      { event: "of another kind", model: "mood" },
    ];
    for (const event of events) metrics.recordEvent(event);
    expect(await samples(metrics, "edgetier_region_model_loads_total")).toEqual({
      '{model="mood",outcome="loaded"}': 1,
      '{model="mood",outcome="failed"}': 1,
    });
    expect(await samples(metrics, "edgetier_region_model_unloads_total")).toEqual({
      '{model="mood"}': 1,
    });
    expect(await samples(metrics, "edgetier_region_model_evictions_total")).toEqual({
      '{model="mood"}': 1,
    });
    expect(await samples(metrics, "edgetier_region_providers_skipped_total")).toEqual({
      '{provider="cuda"}': 1,
    });
    expect(await samples(metrics, "edgetier_region_session_workers_total")).toEqual({
      '{event="started"}': 1,
      '{event="ended"}': 1,
      '{event="given_up"}': 1,
    });
  });

  it.each([
    registryErrors.modelNotFound("secret-1"),
    registryErrors.versionNotFound("secret-1", 999),
  ])("make no label of a model that a client has invented: $code", async (error) => {
    const metrics = createRegionMetrics();
    metrics.recordEvent({ event: "model_failed", model: "secret-1", version: 999, error });
    expect(await metrics.render()).not.toMatch(/secret|999/);
  });

  it("show what is so now: queues, memory, providers, requests, state", async () => {
    const metrics = createRegionMetrics();
    const queue = { tier, requestCount: 2, rows: 5, oldestAgeMs: 250, runsInFlight: 1 };
    let queues = [queue];
    metrics.setGaugeSources({
      queues: () => queues,
      models: () => [
        {
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
        },
      ],
      state: () => "serving",
      inFlight: () => 4,
    });
    expect(await samples(metrics, "nv_inference_pending_request_count")).toEqual({ [MODEL]: 2 });
    expect(await samples(metrics, "edgetier_region_queue_rows")).toEqual({ [TIER]: 5 });
    expect(await samples(metrics, "edgetier_region_queue_age_seconds")).toEqual({ [TIER]: 0.25 });
    expect(await samples(metrics, "edgetier_region_runs_in_progress")).toEqual({ [TIER]: 1 });
    expect(await samples(metrics, "edgetier_region_model_bytes")).toEqual({ [MODEL]: 700 });
    expect(await samples(metrics, "edgetier_region_requests_in_flight")).toEqual({ "": 4 });
    expect(await samples(metrics, "edgetier_region_provider_info")).toEqual({
      '{model="mood",version="1",tier="heavy",provider="cuda",state="skipped"}': 1,
      '{model="mood",version="1",tier="heavy",provider="cpu",state="used"}': 1,
    });
    expect(await samples(metrics, "edgetier_region_state")).toEqual({
      '{state="starting"}': 0,
      '{state="serving"}': 1,
      '{state="leaving"}': 0,
      '{state="draining"}': 0,
    });
    queues = [];
    expect(await samples(metrics, "edgetier_region_queue_rows")).toEqual({});
    expect(await samples(metrics, "nv_inference_pending_request_count")).toEqual({ [MODEL]: 0 });
  });

  it("survive a clock that was set back", async () => {
    const metrics = createRegionMetrics();
    metrics.recordRun(run({ queueTimesMs: [-5], inferMs: -1 }));
    metrics.recordInferRequest(outcome({ durationMs: -1 }));
    expect(await samples(metrics, "nv_inference_queue_duration_us")).toEqual({ [MODEL]: 0 });
  });

  it("have a help text and a type each, in Prometheus' format", async () => {
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
