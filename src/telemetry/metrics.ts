// Every metric: its name, labels and meaning. Events that are rare at the edge; one record each, so that nothing is lost
// with the isolate it happened in and whoever keeps the logs can add them up.

export const COUNTERS = {
  /** how: module_scope, bundled, store, plain (a session opened from the model), fallback (the same by the full engine). */
  edgetier_sessions_opened_total: ["how"],
  /** reason: as in snapshot_refused. */
  edgetier_snapshots_refused_total: ["reason"],
  /** kind: function_cut, engine_trap. */
  edgetier_engine_traps_total: ["kind"],
  /** Sessions that had to make room for others. */
  edgetier_sessions_evicted_total: [],
  /** Early exits asked of the last tier again (serving/drift-check.ts). tier: whose answer it was; result: agrees, differs, failed. */
  edgetier_drift_checks_total: ["model", "version", "tier", "result"],
  /** A region's circuit breaker in one isolate. region: its id in EDGETIER_REGIONS; to: open, half_open, closed. */
  edgetier_region_circuit_changes_total: ["region", "to"],
  /** kind: hedge, retry; result: sent, won (its answer was taken), over_budget (wanted, and not sent). */
  edgetier_region_extra_calls_total: ["kind", "result"],
  /** reason: spans_full, spans_unsent. */
  edgetier_telemetry_dropped_total: ["reason"],
} as const satisfies Readonly<Record<string, readonly string[]>>;

export type CounterName = keyof typeof COUNTERS;
export type CounterLabels<Name extends CounterName> = Readonly<Record<(typeof COUNTERS)[Name][number], string>>;

export interface Metrics {
  count<Name extends CounterName>(name: Name, labels: CounterLabels<Name>, by?: number): void;
}

/** @param log gets `{"event": "metric", "name", "labels", "value"}` */
export function createLoggedMetrics(log: (record: Readonly<Record<string, unknown>>) => void): Metrics {
  return {
    count(name, labels, by = 1) {
      log({ level: "info", event: "metric", name, labels, value: by });
    },
  };
}
