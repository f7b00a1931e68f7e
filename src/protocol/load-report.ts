// Formats and parses ORCA load reports in the response header `endpoint-load-metrics`. Envoy reads this header. Triton
// and vLLM send it if a request has the header `endpoint-load-metrics-format`. The forms are
// `TEXT a=1, named_metrics.b=2` and `JSON {"a": 1, "named_metrics": {"b": 2}}`.

export const LOAD_REPORT_HEADER = "endpoint-load-metrics";
export const LOAD_REPORT_FORMAT_HEADER = "endpoint-load-metrics-format";

export interface OrcaLoadReport {
  /** Used share of the server's concurrency (`application_utilization`). */
  readonly utilization?: number;
  /** Accepted requests without a response. */
  readonly requestsInFlight?: number;
  /** Waiting time of the oldest queued request. */
  readonly oldestQueuedMs?: number;
}

const UTILIZATION = "application_utilization";
const NAMED_METRICS = {
  requestsInFlight: "requests_in_flight",
  oldestQueuedMs: "oldest_queued_ms",
} as const;

/** @param format value of the request header @returns undefined for a format other than TEXT and JSON */
export function formatLoadReport(
  { utilization, requestsInFlight, oldestQueuedMs }: OrcaLoadReport,
  format: string,
): string | undefined {
  const own = omitUndefined({ [UTILIZATION]: utilization });
  const named = omitUndefined({
    [NAMED_METRICS.requestsInFlight]: requestsInFlight,
    [NAMED_METRICS.oldestQueuedMs]: oldestQueuedMs,
  });
  switch (format.trim().toLowerCase()) {
    case "text":
      return `TEXT ${[...Object.entries(own), ...Object.entries(named).map(([name, value]) => [`named_metrics.${name}`, value])].map((pair) => pair.join("=")).join(", ")}`;
    case "json":
      return `JSON ${JSON.stringify({ ...own, named_metrics: named })}`;
  }
  return undefined;
}

/**
 * @param header a report in the TEXT form, which callers must request
 * @returns the readable fields; empty for an invalid report
 */
export function parseLoadReport(header: string | null): OrcaLoadReport {
  const pairs = (/^TEXT (.*)$/.exec(header ?? "")?.[1] ?? "")
    .split(",")
    .map((pair) => /^\s*([\w.-]+)\s*[=:]\s*(\S+)\s*$/.exec(pair)); // Envoy also accepts a colon
  const values = new Map(pairs.map((pair) => [pair?.[1], Number(pair?.[2])]));
  const readValue = (name: string) => {
    const value = values.get(name);
    return value !== undefined && Number.isFinite(value) && value >= 0 ? value : undefined;
  };
  return omitUndefined({
    utilization: readValue(UTILIZATION),
    requestsInFlight: readValue(`named_metrics.${NAMED_METRICS.requestsInFlight}`),
    oldestQueuedMs: readValue(`named_metrics.${NAMED_METRICS.oldestQueuedMs}`),
  });
}

function omitUndefined<Name extends string>(
  values: Readonly<Record<Name, number | undefined>>,
): Partial<Record<Name, number>> {
  return Object.fromEntries(
    Object.entries(values).filter(([, value]) => value !== undefined),
  ) as Partial<Record<Name, number>>;
}
