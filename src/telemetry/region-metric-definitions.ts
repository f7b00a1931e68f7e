// Region metrics for Prometheus: name, help, labels and buckets of each. Metrics with the prefix `nv_` are Triton's, with
// its names, labels and meanings (docs/user_guide/metrics.md). The others cover areas without a Triton metric.
//
// Label values come from the model store or from lists in the code. Client-supplied text never becomes a label value.

import { Counter, Gauge, Histogram, type Registry } from "prom-client";

export interface ModelVersion {
  readonly model: string;
  readonly version: number;
}

export interface TierRef extends ModelVersion {
  readonly tier: string;
}

export const SERVER_STATES = ["starting", "serving", "leaving", "draining"] as const;

/** Sources of the gauges, which are read at each scrape. */
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
  /** Number of infer requests without a response yet. */
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
/** Range from the shortest run to a typical client timeout. */
const SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const ROWS = [1, 2, 4, 8, 16, 32, 64, 128, 256];

export const modelLabelsOf = ({ model, version }: ModelVersion) => ({
  model,
  version: String(version),
});
export const tierLabelsOf = ({ tier, ...model }: TierRef) => ({ ...modelLabelsOf(model), tier });

/** Defines counters and histograms, which are updated by events. */
export function defineCountersAndHistograms(registry: Registry) {
  const factory = createMetricFactory(registry);
  return {
    ...defineTritonCounters(factory),
    ...defineRunMetrics(factory),
    ...defineModelMetrics(factory),
    ...defineServerMetrics(factory),
  };
}

type MetricFactory = ReturnType<typeof createMetricFactory>;

function createMetricFactory(registry: Registry) {
  const registers = [registry];
  return {
    counter: <Label extends string>(name: string, help: string, labelNames: readonly Label[]) =>
      new Counter({ name, help, labelNames, registers }),
    histogram: <Label extends string>(
      name: string,
      help: string,
      labelNames: readonly Label[],
      buckets: number[],
    ) => new Histogram({ name, help, labelNames, buckets, registers }),
  };
}

const defineTritonCounters = ({ counter }: MetricFactory) => ({
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
});

const defineRunMetrics = ({ counter, histogram }: MetricFactory) => ({
  shared: counter(
    "edgetier_region_shared_requests_total",
    "Requests answered by the run of an identical request",
    MODEL,
  ),
  waitSeconds: histogram(
    "edgetier_region_queue_wait_seconds",
    "Time that requests waited for their run",
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
  /** reason: why the batch was not delayed further, to become larger. */
  dispatches: counter("edgetier_region_dispatches_total", "Runs by the reason for their dispatch", [
    ...TIER,
    "reason",
  ]),
  failedRuns: counter(
    "edgetier_region_runs_failed_total",
    "Failed runs; the requests of a failed batch are then run individually",
    TIER,
  ),
});

const defineModelMetrics = ({ counter }: MetricFactory) => ({
  loads: counter(
    "edgetier_region_model_loads_total",
    "Model loads by their outcome: loaded, failed",
    ["model", "outcome"],
  ),
  unloads: counter(
    "edgetier_region_model_unloads_total",
    "Versions unloaded by request, or because no alias refers to them",
    ["model"],
  ),
  evictions: counter(
    "edgetier_region_model_evictions_total",
    "Versions evicted to free memory for others",
    ["model"],
  ),
  skippedProviders: counter(
    "edgetier_region_providers_skipped_total",
    "Execution providers that failed a test run, or disagreed with the CPU",
    ["provider"],
  ),
  /** event: started, ended (unexpectedly), not_started, given_up. */
  workers: counter(
    "edgetier_region_session_workers_total",
    "Events of the worker processes of sessions",
    ["event"],
  ),
});

const defineServerMetrics = ({ counter, histogram }: MetricFactory) => ({
  /** reason: full (they arrived faster than they could be sent), unsent (the collector did not accept them). */
  spansDropped: counter(
    "edgetier_region_spans_dropped_total",
    "Trace spans that were not delivered to the collector",
    ["reason"],
  ),
  httpRequests: histogram(
    "edgetier_region_http_request_duration_seconds",
    "Duration of HTTP requests by action and status",
    ["action", "status"],
    SECONDS,
  ),
});

/** Defines gauges, which are read from `sources` at each scrape. */
export function defineGauges(
  registry: Registry,
  sources: () => RegionGaugeSources | undefined,
): void {
  const gauge: GaugeFactory = (name, help, labelNames, read) =>
    new Gauge({
      name,
      help,
      labelNames,
      registers: [registry],
      collect() {
        this.reset();
        const current = sources();
        if (current !== undefined) read(this, current);
      },
    });
  defineQueueGauges(gauge);
  defineModelGauges(gauge);
  gauge(
    "edgetier_region_requests_in_flight",
    "Infer requests in flight",
    [],
    (gauge, { inFlight }) => gauge.set(inFlight()),
  );
  gauge(
    "edgetier_region_state",
    "1 for the server's state: starting, serving, leaving (not ready, but accepts requests), draining (accepts none)",
    ["state"],
    (gauge, current) => {
      for (const state of SERVER_STATES) gauge.set({ state }, current.state() === state ? 1 : 0);
    },
  );
}

type GaugeFactory = <Label extends string>(
  name: string,
  help: string,
  labelNames: readonly Label[],
  read: (gauge: Gauge<Label>, sources: RegionGaugeSources) => void,
) => Gauge<Label>;

function defineQueueGauges(gauge: GaugeFactory): void {
  gauge(
    "nv_inference_pending_request_count",
    "Instantaneous number of pending requests awaiting execution per-model",
    MODEL,
    (gauge, { queues, models }) => {
      for (const model of models()) gauge.set(modelLabelsOf(model), 0);
      for (const { tier, requestCount } of queues()) gauge.inc(modelLabelsOf(tier), requestCount);
    },
  );
  gauge("edgetier_region_queue_rows", "Rows in the queue", TIER, (gauge, { queues }) =>
    queues().forEach(({ tier, rows }) => gauge.inc(tierLabelsOf(tier), rows)),
  );
  gauge(
    "edgetier_region_queue_age_seconds",
    "Age of the oldest request in the queue",
    TIER,
    (gauge, { queues }) =>
      queues().forEach(({ tier, oldestAgeMs }) =>
        gauge.set(tierLabelsOf(tier), oldestAgeMs / 1_000),
      ),
  );
  gauge("edgetier_region_runs_in_progress", "Runs in progress", TIER, (gauge, { queues }) =>
    queues().forEach(({ tier, runsInFlight }) => gauge.inc(tierLabelsOf(tier), runsInFlight)),
  );
}

function defineModelGauges(gauge: GaugeFactory): void {
  gauge(
    "edgetier_region_model_bytes",
    "Memory of a loaded version, as eviction counts it",
    MODEL,
    (gauge, { models }) =>
      models().forEach((model) => gauge.set(modelLabelsOf(model), model.memoryBytes)),
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
}
