// Every metric of the region, for Prometheus: its name, help, labels and buckets. Those that begin with `nv_` are Triton's,
// with its names, labels and meanings (docs/user_guide/metrics.md); the others tell what Triton has no metric for.
//
// Labels are of what the model store holds, or from lists in the code: nothing that a client has invented becomes one.

import { Counter, Gauge, Histogram, type Registry } from "prom-client";

export interface ModelVersion {
  readonly model: string;
  readonly version: number;
}

export interface TierRef extends ModelVersion {
  readonly tier: string;
}

export const SERVER_STATES = ["starting", "serving", "leaving", "draining"] as const;

/** What is looked at when the metrics are asked for. */
export interface RegionGaugeSources {
  queues(): readonly {
    readonly tier: TierRef;
    readonly requestCount: number;
    readonly rows: number;
    readonly oldestAgeMs: number;
    readonly runsInFlight: number;
  }[];
  models(): readonly LoadedVersion[];
  state(): (typeof SERVER_STATES)[number];
  /** Infer requests. */
  inFlight(): number;
}

export interface LoadedVersion extends ModelVersion {
  readonly memoryBytes: number;
  readonly tiers: readonly {
    readonly tier: string;
    readonly providers: readonly { readonly name: string; readonly state: string }[];
  }[];
}

const MODEL = ["model", "version"] as const;
const TIER = [...MODEL, "tier"] as const;
/** From a fraction of a millisecond to a client's patience. */
const SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const ROWS = [1, 2, 4, 8, 16, 32, 64, 128, 256];

export const modelLabelsOf = ({ model, version }: ModelVersion) => ({
  model,
  version: String(version),
});
export const tierLabelsOf = ({ tier, ...model }: TierRef) => ({ ...modelLabelsOf(model), tier });

/** Counters and histograms: their values come as things happen. */
export function defineCountersAndHistograms(registry: Registry) {
  const registers = [registry];
  const counter = <Label extends string>(
    name: string,
    help: string,
    labelNames: readonly Label[],
  ) => new Counter({ name, help, labelNames, registers });
  const histogram = <Label extends string>(
    name: string,
    help: string,
    labelNames: readonly Label[],
    buckets: number[],
  ) => new Histogram({ name, help, labelNames, buckets, registers });
  return {
    success: counter(
      "nv_inference_request_success",
      "Number of successful inference requests, all batch sizes",
      MODEL,
    ),
    /** reason: REJECTED, CANCELED, BACKEND, OTHER. */
    failure: counter(
      "nv_inference_request_failure",
      "Number of failed inference requests, all batch sizes",
      [...MODEL, "reason"],
    ),
    inferences: counter("nv_inference_count", "Number of inferences performed: rows", MODEL),
    executions: counter(
      "nv_inference_exec_count",
      "Number of model executions performed: runs",
      MODEL,
    ),
    requestUs: counter(
      "nv_inference_request_duration_us",
      "Cumulative inference request duration in microseconds",
      MODEL,
    ),
    queueUs: counter(
      "nv_inference_queue_duration_us",
      "Cumulative inference queuing duration in microseconds",
      MODEL,
    ),
    inputUs: counter(
      "nv_inference_compute_input_duration_us",
      "Cumulative compute input duration in microseconds: preprocessing and merging",
      MODEL,
    ),
    inferUs: counter(
      "nv_inference_compute_infer_duration_us",
      "Cumulative compute inference duration in microseconds",
      MODEL,
    ),
    outputUs: counter(
      "nv_inference_compute_output_duration_us",
      "Cumulative compute output duration in microseconds: splitting",
      MODEL,
    ),

    shared: counter(
      "edgetier_region_shared_requests_total",
      "Requests answered by the run of another that was just like them",
      MODEL,
    ),
    waitSeconds: histogram(
      "edgetier_region_queue_wait_seconds",
      "What requests waited before their run",
      TIER,
      SECONDS,
    ),
    batchRows: histogram("edgetier_region_batch_rows", "Rows of a run", TIER, ROWS),
    runSeconds: histogram(
      "edgetier_region_run_seconds",
      "Duration of a run, without merging and splitting",
      TIER,
      SECONDS,
    ),
    /** reason: why the batch went then, and was not larger. */
    dispatches: counter(
      "edgetier_region_dispatches_total",
      "Runs by the reason why they were started when they were",
      [...TIER, "reason"],
    ),
    failedRuns: counter(
      "edgetier_region_runs_failed_total",
      "Runs that failed; the works of a shared one are then run alone",
      TIER,
    ),

    loads: counter("edgetier_region_model_loads_total", "Loads by their outcome: loaded, failed", [
      "model",
      "outcome",
    ]),
    unloads: counter(
      "edgetier_region_model_unloads_total",
      "Versions unloaded by name, or because nothing names them any more",
      ["model"],
    ),
    evictions: counter(
      "edgetier_region_model_evictions_total",
      "Versions that had to make room for others",
      ["model"],
    ),
    skippedProviders: counter(
      "edgetier_region_providers_skipped_total",
      "Execution providers that failed when they were tried, or disagreed with the CPU",
      ["provider"],
    ),
    /** event: started, ended (unasked), not_started, given_up. */
    workers: counter(
      "edgetier_region_session_workers_total",
      "What became of the workers that sessions run in",
      ["event"],
    ),
    /** reason: full (they came quicker than they could be sent), unsent (the collector did not take them). */
    spansDropped: counter(
      "edgetier_region_spans_dropped_total",
      "Spans of traces that no collector has",
      ["reason"],
    ),
    answers: histogram(
      "edgetier_region_http_request_duration_seconds",
      "HTTP requests by what they are for",
      ["action", "status"],
      SECONDS,
    ),
  };
}

/** Gauges: what is so now. */
export function defineGauges(
  registry: Registry,
  sources: () => RegionGaugeSources | undefined,
): void {
  const gauge = <Label extends string>(
    name: string,
    help: string,
    labelNames: readonly Label[],
    read: (gauge: Gauge<Label>, from: RegionGaugeSources) => void,
  ) =>
    new Gauge({
      name,
      help,
      labelNames,
      registers: [registry],
      collect() {
        this.reset();
        const from = sources();
        if (from !== undefined) read(this, from);
      },
    });

  gauge(
    "nv_inference_pending_request_count",
    "Instantaneous number of pending requests awaiting execution per-model",
    MODEL,
    (gauge, { queues, models }) => {
      for (const one of models()) gauge.set(modelLabelsOf(one), 0);
      for (const { tier: of, requestCount } of queues()) gauge.inc(modelLabelsOf(of), requestCount);
    },
  );
  gauge("edgetier_region_queue_rows", "Rows that wait for a session", TIER, (gauge, { queues }) =>
    queues().forEach(({ tier: of, rows }) => gauge.inc(tierLabelsOf(of), rows)),
  );
  gauge(
    "edgetier_region_queue_age_seconds",
    "How long the oldest of them has waited",
    TIER,
    (gauge, { queues }) =>
      queues().forEach(({ tier: of, oldestAgeMs }) =>
        gauge.set(tierLabelsOf(of), oldestAgeMs / 1_000),
      ),
  );
  gauge("edgetier_region_runs_in_progress", "Runs under way", TIER, (gauge, { queues }) =>
    queues().forEach(({ tier: of, runsInFlight }) => gauge.inc(tierLabelsOf(of), runsInFlight)),
  );
  gauge(
    "edgetier_region_requests_in_flight",
    "Infer requests taken and not answered yet",
    [],
    (gauge, { inFlight }) => gauge.set(inFlight()),
  );
  gauge(
    "edgetier_region_model_bytes",
    "Memory of a loaded version, as eviction counts it",
    MODEL,
    (gauge, { models }) =>
      models().forEach((one) => gauge.set(modelLabelsOf(one), one.memoryBytes)),
  );
  gauge(
    "edgetier_region_provider_info",
    "1 for each execution provider of a tier, by its state: used, skipped, not_tried",
    [...TIER, "provider", "state"],
    (gauge, { models }) => {
      for (const { tiers, ...model } of models()) {
        for (const { tier, providers } of tiers)
          providers.forEach(({ name, state }) =>
            gauge.set({ ...tierLabelsOf({ ...model, tier }), provider: name, state }, 1),
          );
      }
    },
  );
  gauge(
    "edgetier_region_state",
    "1 for the server's state: starting, serving, leaving (not ready, but takes requests), draining (takes none)",
    ["state"],
    (gauge, from) => {
      for (const state of SERVER_STATES) gauge.set({ state }, from.state() === state ? 1 : 0);
    },
  );
}
