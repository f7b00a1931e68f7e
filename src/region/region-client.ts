// Port: calls a region, which runs the heavier tiers. Drivers: drivers/oip-http.ts for one region and drivers/in-process.ts
// for tests. client/region-pool.ts combines several regions into one client.

import { EdgeTierError } from "../core/errors.ts";
import type { GeoPoint } from "../core/geo.ts";
import type { NamedTensors } from "../core/tensor.ts";
import type { Span } from "../core/tracing.ts";
import type { OrcaLoadReport } from "../protocol/load-report.ts";

/** Fields of every request to a region. */
export interface RegionCall {
  readonly model: string;
  readonly version: number;
  /** Correlates the logs of edge and region. */
  readonly requestId: string;
  /** Remaining client deadline. The region drops the request when it has elapsed. */
  readonly timeoutMs: number;
  /** Parent span; each attempt becomes its child. */
  readonly span?: Span;
  readonly clientLocation?: GeoPoint;
  /** Keeps work such as a region health check alive after the response. */
  readonly waitUntil?: (work: Promise<unknown>) => void;
  /** Requests a load report from the region and receives it. */
  readonly onLoadReport?: (load: OrcaLoadReport) => void;
}

const FAILURES = ["unreached", "timed_out", "busy", "failed", "unreadable"] as const;
/**
 * Reason of a region_unavailable error, in its `facts.failure`.
 * - `unreached`: no response began, because the connection was rejected, reset or broken
 * - `timed_out`: no response within the call's timeout, or the caller aborted it
 * - `busy`: a later attempt may succeed (408, 425, 429, 503)
 * - `failed`: the region tried and failed, or does not know this edge (any other 5xx, 401)
 * - `unreadable`: the response violates the protocol or was truncated
 */
export type RegionFailure = (typeof FAILURES)[number];

/** @returns undefined if the region rejected the request, or if the failure is not the region's */
export function classifyRegionError(error: unknown): RegionFailure | undefined {
  if (!(error instanceof EdgeTierError) || error.code !== "region_unavailable") return undefined;
  return FAILURES.find((failure) => failure === error.facts["failure"]) ?? "unreached";
}

const BUSY_STATUSES = new Set([408, 425, 429, 503]);

export function classifyRegionStatus(status: number): RegionFailure | undefined {
  if (BUSY_STATUSES.has(status)) return "busy";
  // 401 concerns the edge's signature and not the client's request.
  return status === 401 || (status >= 500 && status !== 501) ? "failed" : undefined;
}

export interface RegionRequest extends RegionCall {
  readonly tier: string;
  /** The task's own inputs as bytes, one row each. */
  readonly inputs: readonly Uint8Array[];
}

export interface ResumeRequest extends RegionCall {
  readonly tier: string;
  /** Edge tier outputs, named as in the manifest's `resumes`. The first dimension of each is the row. */
  readonly tensors: NamedTensors;
  readonly rows: number;
}

/** A client's own infer request, unchanged. */
export interface ForwardedRequest extends RegionCall {
  readonly body: Uint8Array<ArrayBuffer>;
  /** Headers that describe the body. */
  readonly headers: Readonly<Record<string, string>>;
}

export interface RegionClient {
  /**
   * Runs one tier on all rows.
   * @returns the graph's raw outputs; rows are in the order of `inputs`
   * @throws region_unavailable (unreachable, timed out, 5xx, unreadable response), region_refused (4xx)
   */
  infer(request: RegionRequest, signal?: AbortSignal): Promise<NamedTensors>;
  /**
   * Runs the rest of a tier's graph, starting from the outputs of an edge tier.
   * @returns as `infer` does
   * @throws as `infer`; region_refused if the region cannot resume this tier
   */
  resume(request: ResumeRequest, signal?: AbortSignal): Promise<NamedTensors>;
  /**
   * Forwards the client's request unchanged.
   * @returns the region's response as it arrives, rejections included, with the headers that describe its body. The timeout
   * covers the whole body.
   * @throws region_unavailable (unreachable, timed out, a response outside the protocol), region_refused
   */
  forward(request: ForwardedRequest, signal?: AbortSignal): Promise<Response>;
  isReady(signal?: AbortSignal): Promise<boolean>;
  /** Returns whether this version is loaded. If it is not, the region may start to load it. */
  isModelReady(model: string, version: number, signal?: AbortSignal): Promise<boolean>;
  /**
   * Recent latency quantile of one tier, if the client measures latencies.
   * @param quantile from 0 to 1
   * @returns milliseconds of the fastest region; undefined until there are enough samples
   */
  latencyQuantileMs?(
    quantile: number,
    tier: { readonly model: string; readonly tier: string },
  ): number | undefined;
  /** Returns whether every available region has recently reported that it is saturated. */
  isSaturated?(): boolean;
}
