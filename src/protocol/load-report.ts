// A server's load in its answers: ORCA's header `endpoint-load-metrics`, as Envoy reads it and as Triton and vLLM give it to a
// request that asks by `endpoint-load-metrics-format`. "TEXT a=1, named_metrics.b=2", or "JSON {"a": 1, "named_metrics": {"b": 2}}".

export const LOAD_REPORT_HEADER = "endpoint-load-metrics";
export const LOAD_REPORT_FORMAT_HEADER = "endpoint-load-metrics-format";

export interface OrcaLoadReport {
  /** Of what the server takes at once, the share that is taken (`application_utilization`). */
  readonly utilization?: number;
  /** Requests that it has taken and not answered yet. */
  readonly requestsInFlight?: number;
  /** How long the request that waits longest has waited. */
  readonly oldestQueuedMs?: number;
}

const UTILIZATION = "application_utilization";
const NAMED_METRICS = {
  requestsInFlight: "requests_in_flight",
  oldestQueuedMs: "oldest_queued_ms",
} as const;

/** @param format as the request names it @returns undefined for a format that is none of the two */
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

/** @param header in the form of text, which is the one to ask for @returns what can be read of it; a report that is none is an empty one */
export function parseLoadReport(header: string | null): OrcaLoadReport {
  const pairs = (/^TEXT (.*)$/.exec(header ?? "")?.[1] ?? "")
    .split(",")
    .map((pair) => /^\s*([\w.-]+)\s*[=:]\s*(\S+)\s*$/.exec(pair)); // Envoy takes a colon, too
  const values = new Map(pairs.map((pair) => [pair?.[1], Number(pair?.[2])]));
  const sane = (name: string) => {
    const value = values.get(name);
    return value !== undefined && Number.isFinite(value) && value >= 0 ? value : undefined;
  };
  return omitUndefined({
    utilization: sane(UTILIZATION),
    requestsInFlight: sane(`named_metrics.${NAMED_METRICS.requestsInFlight}`),
    oldestQueuedMs: sane(`named_metrics.${NAMED_METRICS.oldestQueuedMs}`),
  });
}

function omitUndefined<Name extends string>(
  values: Readonly<Record<Name, number | undefined>>,
): Partial<Record<Name, number>> {
  return Object.fromEntries(
    Object.entries(values).filter(([, value]) => value !== undefined),
  ) as Partial<Record<Name, number>>;
}
