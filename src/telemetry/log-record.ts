// Log records of edge and region: events, their levels and their fields. Each record is one JSON object on one line. The
// format is stable for log readers, and tests check every record against it.
//
// Records contain models, tiers, places and errors. They never contain inputs, credentials, headers or query strings.
// Error texts are this project's own, or an upstream's without the deployment's secrets (redacted-log.ts).

import * as z from "zod";

export type LogLevel = "info" | "warn" | "error";

const text = z.string();
const count = z.int().min(0);
const durationMs = z.number().min(0);
const status = z.int().min(100).max(599);
const model = { model: text, version: z.int() };
/** `version` is the alias's target. */
const aliasOverride = { ...model, alias: text, servedVersion: z.int() };
const tier = { ...model, tier: text };
/** Label of a session: `model@version/tier`. */
const label = { label: text.optional() };
const provider = {
  ...tier,
  ...label,
  name: text,
  precision: text,
  state: text,
  reason: text.optional(),
  maxAbsDifference: z.number().optional(),
  openMs: durationMs.optional(),
  runMs: durationMs.optional(),
  nodes: z.record(text, z.unknown()).optional(),
};
const failure = {
  code: text.optional(),
  detail: text.optional(),
  cause: text.optional(),
  error: text.optional(),
};

const LOG_EVENTS = {
  // Edge and region
  /** Access record, enabled by EDGETIER_ACCESS_LOG or EDGETIER_REGION_ACCESS_LOG. */
  request: {
    level: "info",
    fields: {
      method: text.optional(),
      route: text.optional(),
      action: text.optional(),
      status,
      durationMs,
      tier: text.optional(),
      cache: text.optional(),
      code: text.optional(),
    },
  },
  request_failed: { level: "error", fields: failure },
  spans_dropped: { level: "warn", fields: { reason: text, spans: count, cause: text.optional() } },
  // Edge
  not_configured: { level: "error", fields: { code: text, detail: text } },
  version_refused: { level: "error", fields: { ...aliasOverride, cause: text } },
  snapshot_refused: { level: "warn", fields: { where: text, detail: text } },
  engine_trap: {
    level: "error",
    fields: {
      engine: text,
      graph: text,
      tier: text,
      function: z.int().optional(),
      slot: z.int().optional(),
      detail: text,
    },
  },
  cdn_failed: { level: "warn", fields: { operation: text, cause: text } },
  l2_failed: { level: "warn", fields: { operation: text, cause: text } },
  jwks_failed: { level: "warn", fields: { cause: text } },
  rate_limiter_failed: { level: "warn", fields: { cause: text } },
  metric: {
    level: "info",
    fields: { name: text, labels: z.record(text, text), value: z.number() },
  },
  // Region
  open_to_everyone: { level: "warn", fields: { host: text, remedy: text } },
  signatures_required: { level: "info", fields: { keys: z.array(text) } },
  listening: { level: "info", fields: { url: text } },
  ready: { level: "info", fields: {} },
  draining: { level: "info", fields: { signal: text } },
  stopped: { level: "info", fields: { complete: z.boolean() } },
  model_loaded: { level: "info", fields: { ...model, durationMs, bytes: count } },
  model_unloaded: { level: "info", fields: model },
  model_evicted: { level: "warn", fields: { ...model, bytes: count } },
  model_failed: {
    level: "error",
    fields: { model: text, version: z.int().optional(), error: text },
  },
  store_unavailable: {
    level: "error",
    fields: { model: text.optional(), version: z.int().optional(), error: text },
  },
  tier_unknown: { level: "warn", fields: tier },
  alias_overruled: { level: "warn", fields: aliasOverride },
  provider_used: { level: "info", fields: provider },
  provider_skipped: { level: "warn", fields: provider },
  session_worker_started: {
    level: "info",
    fields: { ...label, pid: z.int().optional(), memoryBytes: count, durationMs },
  },
  session_worker_ended: {
    level: "error",
    fields: { ...label, pid: z.int().optional(), how: text },
  },
  session_worker_not_started: { level: "error", fields: { ...label, error: text, tries: count } },
  session_given_up: { level: "error", fields: { ...label, tries: count } },
  session_unbatchable: { level: "warn", fields: { ...tier, problem: text } },
} as const satisfies Readonly<
  Record<string, { readonly level: LogLevel; readonly fields: z.ZodRawShape }>
>;

export type LogEvent = keyof typeof LOG_EVENTS;

/** Level of an event. Unknown events are errors, so that they are noticed. */
export const logLevelOf = (event: string): LogLevel =>
  Object.hasOwn(LOG_EVENTS, event) ? LOG_EVENTS[event as LogEvent].level : "error";

/** Fields of all records. */
const common = {
  /** RFC 3339 time. Only the region writes it, because the edge's platform adds its own. */
  time: z.iso.datetime().optional(),
  /** Id of the request that the record describes, if any. */
  requestId: text.max(255).optional(),
  traceId: text.regex(/^[0-9a-f]{32}$/).optional(),
};

/** @throws ZodError for an unknown event, or a missing or additional field */
export function parseLogRecord(record: unknown) {
  const { event } = z
    .looseObject({ event: z.enum(Object.keys(LOG_EVENTS) as LogEvent[]) })
    .parse(record);
  const { level, fields } = LOG_EVENTS[event];
  return z
    .strictObject({ ...common, event: z.literal(event), level: z.literal(level), ...fields })
    .parse(record);
}
