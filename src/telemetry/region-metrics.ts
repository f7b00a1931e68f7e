// Region metrics: derives Prometheus metrics from runs, finished requests and log events.

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
/** Errors of the request, not of the load. The name is client-supplied and must not become a label. */
const NOT_FOUND_CODES = new Set(["model_not_found", "version_not_found", "version_unavailable"]);

/** Finished run of a session. */
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

/** Finished request that reached a model. */
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

/** Log event. Events without a metric are ignored. */
export interface RegionEventRecord {
  readonly event: string;
  readonly model?: string;
  readonly version?: number | undefined;
  /** Name of an execution provider. */
  readonly name?: string;
  readonly error?: unknown;
}

export interface RegionMetrics {
  recordRun(run: RunRecord): void;
  recordInferRequest(request: InferRequestRecord): void;
  recordHttpRequest(request: HttpRequestRecord): void;
  recordEvent(event: RegionEventRecord): void;
  recordDroppedSpans(reason: string, spans: number): void;
  /** Sets the sources of the gauges, which have no values before. */
  setGaugeSources(sources: RegionGaugeSources): void;
  readonly contentType: string;
  render(): Promise<string>;
}

type Instruments = ReturnType<typeof defineCountersAndHistograms>;

/** @param process also collects metrics of the process: CPU, memory, event loop, garbage collection */
export function createRegionMetrics({
  process = false,
}: { readonly process?: boolean } = {}): RegionMetrics {
  const registry = new Registry();
  let sources: RegionGaugeSources | undefined;
  const metrics = defineCountersAndHistograms(registry);
  defineGauges(registry, () => sources);
  if (process) collectDefaultMetrics({ register: registry });
  const series = createVersionSeries(metrics);

  return {
    recordRun(run) {
      if (series.isRemoved(run.tier)) return;
      series.track(run.tier, run.reason);
      recordRun(metrics, run);
    },
    recordInferRequest({ tier, durationMs, preprocessMs, isCoalesced, failure }) {
      if (series.isRemoved(tier)) return;
      const model = modelLabelsOf(tier);
      if (failure !== undefined) return metrics.failure.inc({ ...model, reason: failure });
      metrics.success.inc(model);
      if (isCoalesced) metrics.shared.inc(model);
      metrics.requestUs.inc(model, toMicroseconds(durationMs));
      metrics.inputUs.inc(model, toMicroseconds(preprocessMs));
    },
    recordHttpRequest: ({ action, status, durationMs }) =>
      metrics.httpRequests.observe({ action, status: String(status) }, durationMs / 1_000),
    recordEvent: (event) => recordEvent(metrics, series, event),
    recordDroppedSpans: (reason, spans) => metrics.spansDropped.inc({ reason }, spans),
    setGaugeSources(newSources) {
      sources = newSources;
    },
    contentType: registry.contentType,
    render: () => registry.metrics(),
  };
}

function recordRun(metrics: Instruments, run: RunRecord): void {
  const { requestCount, rows, reason, queueTimesMs, inputMs, inferMs, outputMs, hasFailed } = run;
  const tier = tierLabelsOf(run.tier);
  const model = modelLabelsOf(run.tier);
  metrics.dispatches.inc({ ...tier, reason });
  if (hasFailed) return metrics.failedRuns.inc(tier);
  for (const queueTimeMs of queueTimesMs) metrics.waitSeconds.observe(tier, queueTimeMs / 1_000);
  metrics.batchRows.observe(tier, rows);
  metrics.runSeconds.observe(tier, inferMs / 1_000);
  metrics.executions.inc(model);
  metrics.inferences.inc(model, rows);
  const queueMs = queueTimesMs.reduce((sum, queueTimeMs) => sum + queueTimeMs, 0);
  metrics.queueUs.inc(model, toMicroseconds(queueMs));
  metrics.inputUs.inc(model, toMicroseconds(requestCount * inputMs));
  metrics.inferUs.inc(model, toMicroseconds(requestCount * inferMs));
  metrics.outputUs.inc(model, toMicroseconds(requestCount * outputMs));
}

function recordEvent(
  metrics: Instruments,
  series: VersionSeries,
  { event, model, version, name, error }: RegionEventRecord,
): void {
  switch (event) {
    case "model_loaded":
      if (model === undefined || version === undefined) return;
      series.initialize({ model, version });
      return metrics.loads.inc({ model, outcome: "loaded" });
    case "model_failed":
      return model === undefined || NOT_FOUND_CODES.has(errorCodeOf(error))
        ? undefined
        : metrics.loads.inc({ model, outcome: "failed" });
    case "model_unloaded":
      if (model === undefined || version === undefined) return;
      series.remove({ model, version });
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

type VersionSeries = ReturnType<typeof createVersionSeries>;

/** Creates and removes the series of model versions, so that unloaded versions do not accumulate. */
function createVersionSeries(metrics: Instruments) {
  const modelMetrics = [
    metrics.success,
    metrics.shared,
    metrics.inferences,
    metrics.executions,
    metrics.requestUs,
    metrics.queueUs,
    metrics.inputUs,
    metrics.inferUs,
    metrics.outputUs,
  ];
  const tierMetrics = [
    metrics.waitSeconds,
    metrics.batchRows,
    metrics.runSeconds,
    metrics.failedRuns,
  ];
  /** Tiers with series, by "model@version". */
  const tiersByVersion = new Map<string, Set<string>>();
  const reasons = new Set<string>();
  /** Unloaded versions. Their requests in flight must not create series again. */
  const removedVersions = new Set<string>();

  return {
    isRemoved: (tier: TierRef): boolean => removedVersions.has(versionKeyOf(tier)),

    track(tier: TierRef, reason: string): void {
      const key = versionKeyOf(tier);
      tiersByVersion.set(key, (tiersByVersion.get(key) ?? new Set()).add(tier.tier));
      reasons.add(reason);
    },

    /** Creates series with the value 0, so that a rate includes the first request. */
    initialize(version: ModelVersion): void {
      const model = modelLabelsOf(version);
      removedVersions.delete(versionKeyOf(version));
      for (const metric of modelMetrics) metric.inc(model, 0);
      for (const reason of FAILURE_REASONS) metrics.failure.inc({ ...model, reason }, 0);
    },

    remove(version: ModelVersion): void {
      const model = modelLabelsOf(version);
      const key = versionKeyOf(version);
      removedVersions.add(key);
      for (const metric of modelMetrics) metric.remove(model);
      for (const reason of FAILURE_REASONS) metrics.failure.remove({ ...model, reason });
      for (const tier of tiersByVersion.get(key) ?? []) {
        for (const metric of tierMetrics) metric.remove({ ...model, tier });
        for (const reason of reasons) metrics.dispatches.remove({ ...model, tier, reason });
      }
      tiersByVersion.delete(key);
    },
  };
}

const versionKeyOf = ({ model, version }: ModelVersion) => `${model}@${version}`;
/** Clamps negative durations, because a clock that was set back must not decrease a counter. */
const toMicroseconds = (ms: number) => Math.max(0, ms) * 1_000;
const errorCodeOf = (error: unknown) =>
  typeof error === "object" && error !== null && "code" in error ? String(error.code) : "";
