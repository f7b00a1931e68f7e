// A server's load in its answers: ORCA's header `endpoint-load-metrics`, as Envoy reads it and as Triton and vLLM give it to a
// request that asks by `endpoint-load-metrics-format`. "TEXT a=1, named_metrics.b=2", or "JSON {"a": 1, "named_metrics": {"b": 2}}".

import * as z from "zod";

export const LOAD_REPORT_HEADER = "endpoint-load-metrics";
export const LOAD_FORMAT_HEADER = "endpoint-load-metrics-format";

export interface LoadReport {
  /** Of what the server takes at once, the share that is taken (`application_utilization`). */
  readonly utilisation?: number;
  /** Requests that it has taken and not answered yet. */
  readonly requestsInFlight?: number;
  /** How long the request that waits longest has waited. */
  readonly oldestQueuedMs?: number;
}

const UTILISATION = "application_utilization";
const NAMED = { requestsInFlight: "requests_in_flight", oldestQueuedMs: "oldest_queued_ms" } as const;

/** @param format as the request names it @returns undefined for a format that is none of the two */
export function writeLoadReport({ utilisation, requestsInFlight, oldestQueuedMs }: LoadReport, format: string): string | undefined {
  const own = presentOf({ [UTILISATION]: utilisation });
  const named = presentOf({ [NAMED.requestsInFlight]: requestsInFlight, [NAMED.oldestQueuedMs]: oldestQueuedMs });
  switch (format.trim().toLowerCase()) {
    case "text":
      return `TEXT ${[...Object.entries(own), ...Object.entries(named).map(([name, value]) => [`named_metrics.${name}`, value])].map((pair) => pair.join("=")).join(", ")}`;
    case "json":
      return `JSON ${JSON.stringify({ ...own, named_metrics: named })}`;
  }
  return undefined;
}

/** @returns what can be read of it; a report that is none is an empty one */
export function readLoadReport(header: string | null): LoadReport {
  const [, format, text = ""] = /^(TEXT|JSON) (.*)$/.exec(header ?? "") ?? [];
  const values = format === "JSON" ? valuesOfJson(text) : valuesOfText(text);
  const sane = (name: string) => {
    const value = values.get(name);
    return value !== undefined && Number.isFinite(value) && value >= 0 ? value : undefined;
  };
  return presentOf({ utilisation: sane(UTILISATION), requestsInFlight: sane(`named_metrics.${NAMED.requestsInFlight}`), oldestQueuedMs: sane(`named_metrics.${NAMED.oldestQueuedMs}`) });
}

/** Envoy takes a colon for the sign of equality, too. */
function valuesOfText(text: string): Map<string, number> {
  const pairs = text.split(",").map((pair) => /^\s*([\w.-]+)\s*[=:]\s*(\S+)\s*$/.exec(pair));
  return new Map(pairs.flatMap((pair) => (pair === null ? [] : [[pair[1] ?? "", Number(pair[2])]])));
}

const jsonReport = z.looseObject({ named_metrics: z.record(z.string(), z.unknown()).optional() });

function valuesOfJson(text: string): Map<string, number> {
  try {
    const { named_metrics: named = {}, ...own } = jsonReport.parse(JSON.parse(text));
    const entries = [...Object.entries(own), ...Object.entries(named).map(([name, value]): [string, unknown] => [`named_metrics.${name}`, value])];
    return new Map(entries.filter((entry): entry is [string, number] => typeof entry[1] === "number"));
  } catch {
    return new Map();
  }
}

function presentOf<Name extends string>(values: Readonly<Record<Name, number | undefined>>): Partial<Record<Name, number>> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as Partial<Record<Name, number>>;
}
