// The region client port: how the edge asks a heavier tier. Drivers: drivers/oip-http.ts for one region, and in-process for
// tests; client/region-pool.ts makes one of several.

import { EdgeTierError } from "../core/errors.ts";
import type { GeoPoint } from "../core/geo.ts";
import type { Span } from "../core/tracing.ts";
import type { NamedTensors } from "../core/tensor.ts";
import type { OrcaLoadReport } from "../protocol/load-report.ts";

/** What every request to a region brings along. */
export interface RegionCall {
  readonly model: string;
  readonly version: number;
  /** Sent along so that logs of edge and region meet. */
  readonly requestId: string;
  /** What is left of the client's deadline; the region drops work that is older. */
  readonly timeoutMs: number;
  /** What the call is made for; each attempt is a span below it. */
  readonly span?: Span;
  /** Where the client is. */
  readonly clientLocation?: GeoPoint;
  /** Keeps work alive after the response, such as a look at a region's health. */
  readonly waitUntil?: (work: Promise<unknown>) => void;
  /** The region is asked for its load, and this is told what it says of it. */
  readonly onLoadReport?: (load: OrcaLoadReport) => void;
}

const FAILURES = ["unreached", "timed_out", "busy", "failed", "unreadable"] as const;
/**
 * What region_unavailable means, in its `facts.failure`.
 * - `unreached`: no answer began: refused, reset, broken off on the way
 * - `timed_out`: none within the call's time, or the caller has ended it
 * - `busy`: the region says that another moment may do: 408, 425, 429, 503
 * - `failed`: it has tried, or does not know this edge: any other 5xx, 401
 * - `unreadable`: what came is no answer of the protocol, or broke off
 */
export type RegionFailure = (typeof FAILURES)[number];

/** @returns undefined where the region has answered, by a refusal, or the failure is not its own */
export function classifyRegionError(error: unknown): RegionFailure | undefined {
  if (!(error instanceof EdgeTierError) || error.code !== "region_unavailable") return undefined;
  return FAILURES.find((one) => one === error.facts["failure"]) ?? "unreached";
}

const BUSY_STATUSES = new Set([408, 425, 429, 503]);

export function classifyRegionStatus(status: number): RegionFailure | undefined {
  if (BUSY_STATUSES.has(status)) return "busy";
  // 401 is the region's word on this edge, and not on its client.
  return status === 401 || (status >= 500 && status !== 501) ? "failed" : undefined;
}

export interface RegionRequest extends RegionCall {
  readonly tier: string;
  /** The task's own inputs as bytes, one row each. */
  readonly inputs: readonly Uint8Array[];
}

export interface ResumeRequest extends RegionCall {
  readonly tier: string;
  /** What an edge tier has made of the inputs, by the names of the manifest's `resumes`; the first dimension of each is the rows. */
  readonly tensors: NamedTensors;
  readonly rows: number;
}

/** A client's own infer request, as it came. */
export interface ForwardedRequest extends RegionCall {
  readonly body: Uint8Array<ArrayBuffer>;
  /** Those that tell what the body is. */
  readonly headers: Readonly<Record<string, string>>;
}

export interface RegionClient {
  /**
   * Runs one tier over all rows.
   * @returns the graph's raw outputs, row by row in the order of `inputs`.
   * @throws region_unavailable (unreachable, timed out, 5xx, an answer that cannot be read), region_refused (4xx).
   */
  infer(request: RegionRequest, signal?: AbortSignal): Promise<NamedTensors>;
  /**
   * Has one tier go on from where an edge tier is.
   * @returns as `infer` does
   * @throws as `infer`; a region that does not know how to go on refuses: region_refused
   */
  resume(request: ResumeRequest, signal?: AbortSignal): Promise<NamedTensors>;
  /**
   * Has the region answer in the client's stead.
   * @returns its answer as it comes, refusals too, with the headers that tell what the body is. The time limit holds until
   * the body's end.
   * @throws region_unavailable (unreachable, timed out, an answer that is none of the protocol's), region_refused
   */
  forward(request: ForwardedRequest, signal?: AbortSignal): Promise<Response>;
  isReady(signal?: AbortSignal): Promise<boolean>;
  /** Whether the region answers for this version at once; one that does not may begin to load it. */
  isModelReady(model: string, version: number, signal?: AbortSignal): Promise<boolean>;
  /**
   * What has been measured of one tier's calls lately, where the client measures.
   * @param quantile from 0 to 1 @returns milliseconds, of the region that is quickest now; undefined until there are enough samples
   */
  latencyQuantileMs?(
    quantile: number,
    of: { readonly model: string; readonly tier: string },
  ): number | undefined;
  /** Whether whoever would be asked has more to do than it can, by its own word of just now. */
  isSaturated?(): boolean;
}
