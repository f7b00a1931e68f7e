// The region's metrics for Prometheus, from its executor's runs, its requests' outcomes, and the events that its log tells.

import { collectDefaultMetrics, Registry } from "prom-client";
import {
  defineCountersAndHistograms,
  defineGauges,
  modelLabelsOf,
  type ModelVersion,
  type RegionGaugeSources,
  type TierRef,
  tierLabelsOf,
} from "./region-metric-definitions.ts";

const FAILURE_REASONS = ["REJECTED", "CANCELED", "BACKEND", "OTHER"] as const;
/** What was asked for is not there: its name is the client's, and nothing has failed. */
const NOT_FOUND_CODES = new Set(["model_not_found", "version_not_found", "version_unavailable"]);

/** One run of a session, over. */
export interface RunRecord {
  readonly tier: TierRef;
  readonly requestCount: number;
  readonly rows: number;
  readonly reason: string;
  readonly queueTimesMs: readonly number[];
  readonly inputMs: number;
  readonly inferMs: number;
  readonly outputMs: number;
  readonly hasFailed: boolean;
}

/** One request that reached a model, over. */
export interface InferRequestRecord {
  readonly tier: TierRef;
  readonly durationMs: number;
  readonly preprocessMs: number;
  readonly isCoalesced: boolean;
  readonly failure: (typeof FAILURE_REASONS)[number] | undefined;
}

export interface HttpRequestRecord {
  readonly action: string;
  readonly status: number;
  readonly durationMs: number;
}

/** What the log tells, too; an event that is unknown here is not counted. */
export interface RegionEventRecord {
  readonly event: string;
  readonly model?: string;
  readonly version?: number | undefined;
  /** Of a provider. */
  readonly name?: string;
  readonly error?: unknown;
}

export interface RegionMetrics {
  recordRun(run: RunRecord): void;
  recordInferRequest(outcome: InferRequestRecord): void;
  recordHttpRequest(answer: HttpRequestRecord): void;
  recordEvent(event: RegionEventRecord): void;
  recordDroppedSpans(reason: string, spans: number): void;
  /** From now on the gauges have values. */
  setGaugeSources(sources: RegionGaugeSources): void;
  readonly contentType: string;
  render(): Promise<string>;
}

/** @param process adds those of the process: CPU, memory, event loop, garbage collection */
export function createRegionMetrics({
  process = false,
}: { readonly process?: boolean } = {}): RegionMetrics {
  const registry = new Registry();
  let sources: RegionGaugeSources | undefined;
  const metrics = defineCountersAndHistograms(registry);
  defineGauges(registry, () => sources);
  if (process) collectDefaultMetrics({ register: registry });

  const { success, inferences, executions, requestUs, queueUs, inputUs, inferUs, outputUs } =
    metrics;
  const ofModel = [
    success,
    metrics.shared,
    inferences,
    executions,
    requestUs,
    queueUs,
    inputUs,
    inferUs,
    outputUs,
  ];
  const ofTier = [metrics.waitSeconds, metrics.batchRows, metrics.runSeconds, metrics.failedRuns];
  /** By "model@version": tiers that have series. */
  const tiersSeen = new Map<string, Set<string>>();
  const reasonsSeen = new Set<string>();
  /** "model@version": unloaded, and not loaded again. What was under way then must not bring their series back. */
  const gone = new Set<string>();

  function note(of: TierRef, reason: string): void {
    tiersSeen.set(keyOf(of), (tiersSeen.get(keyOf(of)) ?? new Set()).add(of.tier));
    reasonsSeen.add(reason);
  }

  /** So that a rate can be told from the first request on. */
  function introduce(loaded: ModelVersion): void {
    const model = modelLabelsOf(loaded);
    gone.delete(keyOf(loaded));
    for (const metric of ofModel) metric.inc(model, 0);
    for (const reason of FAILURE_REASONS) metrics.failure.inc({ ...model, reason }, 0);
  }

  /** A version that is gone leaves no series behind: there will be others. */
  function forget(unloaded: ModelVersion): void {
    const model = modelLabelsOf(unloaded);
    const key = keyOf(unloaded);
    gone.add(key);
    for (const metric of ofModel) metric.remove(model);
    for (const reason of FAILURE_REASONS) metrics.failure.remove({ ...model, reason });
    for (const tier of tiersSeen.get(key) ?? []) {
      for (const metric of ofTier) metric.remove({ ...model, tier });
      for (const reason of reasonsSeen) metrics.dispatches.remove({ ...model, tier, reason });
    }
    tiersSeen.delete(key);
  }

  function observe({ event, model, version, name, error }: RegionEventRecord): void {
    switch (event) {
      case "model_loaded":
        if (model === undefined || version === undefined) return;
        introduce({ model, version });
        return metrics.loads.inc({ model, outcome: "loaded" });
      case "model_failed":
        return model === undefined || NOT_FOUND_CODES.has(errorCodeOf(error))
          ? undefined
          : metrics.loads.inc({ model, outcome: "failed" });
      case "model_unloaded":
        if (model === undefined || version === undefined) return;
        forget({ model, version });
        return metrics.unloads.inc({ model });
      case "model_evicted":
        return model === undefined ? undefined : metrics.evictions.inc({ model });
      case "provider_skipped":
        return name === undefined ? undefined : metrics.skippedProviders.inc({ provider: name });
      case "session_worker_started":
      case "session_worker_ended":
      case "session_worker_not_started":
      case "session_given_up":
        return metrics.workers.inc({ event: event.replace(/^session_(worker_)?/, "") });
    }
  }

  return {
    recordRun({
      tier: of,
      requestCount,
      rows,
      reason,
      queueTimesMs,
      inputMs,
      inferMs,
      outputMs,
      hasFailed,
    }) {
      if (gone.has(keyOf(of))) return;
      const tier = tierLabelsOf(of);
      const model = modelLabelsOf(of);
      note(of, reason);
      metrics.dispatches.inc({ ...tier, reason });
      if (hasFailed) return metrics.failedRuns.inc(tier);
      for (const ms of queueTimesMs) metrics.waitSeconds.observe(tier, ms / 1_000);
      metrics.batchRows.observe(tier, rows);
      metrics.runSeconds.observe(tier, inferMs / 1_000);
      executions.inc(model);
      inferences.inc(model, rows);
      queueUs.inc(model, microseconds(queueTimesMs.reduce((sum, ms) => sum + ms, 0)));
      inputUs.inc(model, microseconds(requestCount * inputMs));
      inferUs.inc(model, microseconds(requestCount * inferMs));
      outputUs.inc(model, microseconds(requestCount * outputMs));
    },
    recordInferRequest({ tier: of, durationMs, preprocessMs, isCoalesced, failure }) {
      if (gone.has(keyOf(of))) return;
      const model = modelLabelsOf(of);
      if (failure !== undefined) return metrics.failure.inc({ ...model, reason: failure });
      success.inc(model);
      if (isCoalesced) metrics.shared.inc(model);
      requestUs.inc(model, microseconds(durationMs));
      inputUs.inc(model, microseconds(preprocessMs));
    },
    recordHttpRequest: ({ action, status, durationMs }) =>
      metrics.answers.observe({ action, status: String(status) }, durationMs / 1_000),
    recordEvent: observe,
    recordDroppedSpans: (reason, spans) => metrics.spansDropped.inc({ reason }, spans),
    setGaugeSources(from) {
      sources = from;
    },
    contentType: registry.contentType,
    render: () => registry.metrics(),
  };
}

const keyOf = ({ model, version }: ModelVersion) => `${model}@${version}`;
/** A clock that was set back must not take a counter back. */
const microseconds = (ms: number) => Math.max(0, ms) * 1_000;
const errorCodeOf = (error: unknown) =>
  typeof error === "object" && error !== null && "code" in error ? String(error.code) : "";
