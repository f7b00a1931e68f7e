// The region client port: how the edge asks a heavier tier. Drivers: drivers/oip-http.ts, and in-process for tests.

import type { NamedTensors } from "../core/tensor.ts";

export interface RegionRequest {
  readonly model: string;
  readonly version: number;
  readonly tier: string;
  /** The task's own inputs as bytes, one row each. */
  readonly inputs: readonly Uint8Array[];
  /** Sent along so that logs of edge and region meet. */
  readonly requestId: string;
  /** What is left of the client's deadline; the region drops work that is older. */
  readonly timeoutMs: number;
  readonly traceparent?: string;
}

export interface RegionClient {
  /**
   * Runs one tier over all rows.
   * @returns the graph's raw outputs, row by row in the order of `inputs`.
   * @throws region_unavailable (unreachable, timed out, 5xx, an answer that cannot be read), region_refused (4xx).
   */
  infer(request: RegionRequest, signal?: AbortSignal): Promise<NamedTensors>;
  ready(signal?: AbortSignal): Promise<boolean>;
}
