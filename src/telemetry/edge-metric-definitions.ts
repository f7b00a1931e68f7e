// Every metric of the edge: its name, unit, labels, buckets and meaning. The recorder, the aggregator, `/metrics`, the rules and the
// dashboards of infra/monitoring, and the page's live panel are made from this file alone.
//
// Labels are of what the model store or the configuration holds, or from lists in the code: nothing that a client has invented becomes
// one. What takes computing alone cannot be timed at the edge, where the clock stands still without I/O: durations there are what a
// request waited (for the store, caches, regions, other requests), and say so.

/** From a fraction of a millisecond to a client's patience. */
const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10] as const;
/** Finer where exits are decided. */
const CONFIDENCES = [
  0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.975, 0.99, 1,
] as const;

export const EDGE_METRICS = {
  edgetier_isolates_started_total: {
    kind: "counter",
    labels: [],
    help: "Isolates that have answered a first request: cold starts",
  },
  /** route: predict, embeddings, infer, models, regions, health, metrics, other. model: "" where none that exists was named. */
  edgetier_requests_total: {
    kind: "counter",
    labels: ["route", "model", "status"],
    help: "Requests answered, by HTTP status",
  },
  edgetier_request_duration_seconds: {
    kind: "histogram",
    labels: ["route", "model"],
    buckets: SECONDS,
    help: "What requests took from arrival to answer by the isolate's clock, which stands still while it computes",
  },
  /** phase: as in `server-timing`, those that wait. */
  edgetier_phase_duration_seconds: {
    kind: "histogram",
    labels: ["phase"],
    buckets: SECONDS,
    help: "What requests waited in a phase, by the isolate's clock",
  },
  edgetier_deadline_seconds: {
    kind: "gauge",
    labels: ["model"],
    help: "The deadline that the model's manifest sets: its service level objective",
  },

  /** degraded_by: code of the error that kept a better tier from being asked, or "". */
  edgetier_answers_total: {
    kind: "counter",
    labels: ["model", "version", "tier", "degraded_by"],
    help: "Inputs answered by computing, by the tier whose answer was given",
  },
  edgetier_tier_inputs_total: {
    kind: "counter",
    labels: ["model", "version", "tier"],
    help: "Inputs that a tier was asked about; those that it did not answer were escalated",
  },
  edgetier_tier_failures_total: {
    kind: "counter",
    labels: ["model", "version", "tier", "error"],
    help: "Runs of a tier that failed, or were left out, by the error's code",
  },
  edgetier_confidence: {
    kind: "histogram",
    labels: ["model", "version", "tier"],
    buckets: CONFIDENCES,
    help: "Calibrated confidence of the answers given",
  },
  /** result: l1, cdn, l2, miss, bypass, held (the client has the answer already). */
  edgetier_cache_results_total: {
    kind: "counter",
    labels: ["model", "result"],
    help: "Requests by where their answers came from",
  },

  /** how: module_scope, bundled, store, plain (a session opened from the model), fallback (the same by the full engine). */
  edgetier_sessions_opened_total: {
    kind: "counter",
    labels: ["how"],
    help: "Sessions opened at the edge",
  },
  /** reason: as in snapshot_refused. */
  edgetier_snapshots_refused_total: {
    kind: "counter",
    labels: ["reason"],
    help: "Snapshots that were not restored",
  },
  /** kind: function_cut, engine_trap. */
  edgetier_engine_traps_total: {
    kind: "counter",
    labels: ["kind"],
    help: "Runs that ended in a trap of the engine",
  },
  edgetier_sessions_evicted_total: {
    kind: "counter",
    labels: [],
    help: "Sessions that had to make room for others",
  },
  /** tier: whose answer it was; result: agrees, differs, failed. */
  edgetier_drift_checks_total: {
    kind: "counter",
    labels: ["model", "version", "tier", "result"],
    help: "Early exits asked of the last tier again",
  },

  /** region: its id in EDGETIER_REGIONS; result: ok, refused (4xx), unreached, timed_out, busy, failed, unreadable, abandoned (another one was quicker), other. */
  edgetier_region_calls_total: {
    kind: "counter",
    labels: ["region", "result"],
    help: "Calls that reached for a region",
  },
  edgetier_region_call_duration_seconds: {
    kind: "histogram",
    labels: ["region"],
    buckets: SECONDS,
    help: "Calls to a region that were answered",
  },
  /** to: open, half_open, closed. */
  edgetier_region_circuit_changes_total: {
    kind: "counter",
    labels: ["region", "to"],
    help: "Changes of a region's circuit breaker, each in one isolate",
  },
  /** kind: hedge, retry; result: sent, won (its answer was taken), over_budget (wanted, and not sent). */
  edgetier_region_extra_calls_total: {
    kind: "counter",
    labels: ["region", "kind", "result"],
    help: "Calls beyond a request's first",
  },

  /**
   * reason: full (more series than an isolate or an aggregator holds), unsent (no aggregator has said in time that it took them), unknown
   * (of another deployment's metrics); spans_full, spans_unsent (the same of traces).
   */
  edgetier_telemetry_dropped_total: {
    kind: "counter",
    labels: ["reason"],
    help: "Events and spans that are missing in the other metrics and traces",
  },
} as const satisfies Readonly<Record<string, MetricDefinition>>;

export type MetricDefinition =
  | {
      readonly kind: "counter" | "gauge";
      readonly labels: readonly string[];
      readonly help: string;
    }
  | {
      readonly kind: "histogram";
      readonly labels: readonly string[];
      readonly help: string;
      /** Upper bounds, ascending; one more for the rest is implied. */ readonly buckets: readonly number[];
    };

export type MetricName = keyof typeof EDGE_METRICS;
export const isMetricName = (name: string): name is MetricName => Object.hasOwn(EDGE_METRICS, name);
type NamesOf<Kind> = {
  [Name in MetricName]: (typeof EDGE_METRICS)[Name]["kind"] extends Kind ? Name : never;
}[MetricName];
export type CounterName = NamesOf<"counter">;
export type GaugeName = NamesOf<"gauge">;
export type HistogramName = NamesOf<"histogram">;
export type LabelsOf<Name extends MetricName> = Readonly<
  Record<(typeof EDGE_METRICS)[Name]["labels"][number], string>
>;
