// Edge metrics: name, kind, labels, buckets and help of each. The recorder, the aggregator, `/metrics`, the rules and
// dashboards of infra/monitoring, and the playground's live panel are built from this file alone.
//
// Label values come from the model store, the configuration, or lists in the code. Client-supplied text never becomes a
// label value. Pure computation cannot be timed at the edge, because the clock pauses without I/O. Durations therefore
// measure only waiting: for the store, caches, regions and other requests. Their help says so.

/** Range from a fast cache hit to a typical client timeout. */
const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10] as const;
/** Finer at the upper end, where exit thresholds lie. */
const CONFIDENCES = [
  0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.975, 0.99, 1,
] as const;

export const EDGE_METRICS = {
  edgetier_isolates_started_total: {
    kind: "counter",
    labels: [],
    help: "Isolates that answered their first request: cold starts",
  },
  /** route: predict, embeddings, infer, models, regions, health, metrics, other. model: "" if the request names no existing model. */
  edgetier_requests_total: {
    kind: "counter",
    labels: ["route", "model", "status"],
    help: "Requests answered, by HTTP status",
  },
  edgetier_request_duration_seconds: {
    kind: "histogram",
    labels: ["route", "model"],
    buckets: SECONDS,
    help: "Duration of requests by the isolate's clock, which pauses during computation",
  },
  /** phase: the waiting phases of `server-timing`. */
  edgetier_phase_duration_seconds: {
    kind: "histogram",
    labels: ["phase"],
    buckets: SECONDS,
    help: "Time that requests waited in a phase, by the isolate's clock",
  },
  edgetier_deadline_seconds: {
    kind: "gauge",
    labels: ["model"],
    help: "Deadline in the model's manifest: its service level objective",
  },

  /** degraded_by: code of the error that prevented the call of a better tier, or "". */
  edgetier_answers_total: {
    kind: "counter",
    labels: ["model", "version", "tier", "degraded_by"],
    help: "Inputs answered by computation, by the tier of the final output",
  },
  edgetier_tier_inputs_total: {
    kind: "counter",
    labels: ["model", "version", "tier"],
    help: "Inputs that a tier processed; inputs without an exit were escalated",
  },
  edgetier_tier_failures_total: {
    kind: "counter",
    labels: ["model", "version", "tier", "error"],
    help: "Runs of a tier that failed or were skipped, by error code",
  },
  edgetier_confidence: {
    kind: "histogram",
    labels: ["model", "version", "tier"],
    buckets: CONFIDENCES,
    help: "Calibrated confidence of the final outputs",
  },
  /** result: l1, cdn, l2, miss, bypass, held (the client's own copy is current). */
  edgetier_cache_results_total: {
    kind: "counter",
    labels: ["model", "result"],
    help: "Requests by the source of their responses",
  },

  /** how: module_scope, bundled, store, plain (a session created from the model), fallback (the same with the full engine). */
  edgetier_sessions_opened_total: {
    kind: "counter",
    labels: ["how"],
    help: "Sessions opened at the edge",
  },
  /** reason: `where` of the log event snapshot_refused. */
  edgetier_snapshots_refused_total: {
    kind: "counter",
    labels: ["reason"],
    help: "Snapshots that were rejected and not restored",
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
    help: "Sessions evicted to free memory for others",
  },
  /** tier: source of the early exit; result: agrees, differs, failed. */
  edgetier_drift_checks_total: {
    kind: "counter",
    labels: ["model", "version", "tier", "result"],
    help: "Early exits compared with the output of the last tier",
  },

  /**
   * region: id in EDGETIER_REGIONS. result: `ok`, `refused` (4xx), `unreached` (no connection), `timed_out`, `busy`,
   * `failed`, `unreadable`, `abandoned` (another call was faster), `other`.
   */
  edgetier_region_calls_total: {
    kind: "counter",
    labels: ["region", "result"],
    help: "Calls to a region, by result",
  },
  edgetier_region_call_duration_seconds: {
    kind: "histogram",
    labels: ["region"],
    buckets: SECONDS,
    help: "Duration of answered calls to a region",
  },
  /** to: open, half_open, closed. */
  edgetier_region_circuit_changes_total: {
    kind: "counter",
    labels: ["region", "to"],
    help: "State changes of a region's circuit breaker, per isolate",
  },
  /** kind: hedge, retry; result: sent, won (its response was used), over_budget (not sent). */
  edgetier_region_extra_calls_total: {
    kind: "counter",
    labels: ["region", "kind", "result"],
    help: "Additional calls after a request's first one",
  },

  /**
   * reason: `full` (the table of an isolate or aggregator is full), `unsent` (no aggregator confirmed the batch in time),
   * `unknown` (another deployment's metric). Traces have the counterparts `spans_full` and `spans_unsent`.
   */
  edgetier_telemetry_dropped_total: {
    kind: "counter",
    labels: ["reason"],
    help: "Events and spans that the other metrics and traces lack",
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
      /** Upper bounds in ascending order, without the implied infinity. */
      readonly buckets: readonly number[];
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
