// Region selector: finds the nearest healthy region with a public address in the edge's list for this client.

import type { RegionList } from "../protocol/region-list.ts";
import {
  type CallOptions,
  type Connection,
  computeCallEndMs,
  readJsonBody,
  send,
} from "./connection.ts";

/**
 * Selects the region for direct calls of `infer`. {@link createRegionSelector} makes the usual one; an app may implement
 * its own.
 *
 * @example
 * import { connect, infer, type RegionSelector } from "edgetier/client";
 *
 * const frankfurt: RegionSelector = {
 *   nearest: async () => ({ id: "fra", url: "https://fra.example.com" }),
 *   markFailed: (id) => console.warn(`region ${id} failed`),
 * };
 * const inputs = { x: { datatype: "FP32", shape: [1, 1], data: Float32Array.of(1) } } as const;
 * await infer(connect({ url: "https://predict.example.com" }), "scale", inputs, { regions: frankfurt });
 */
export interface RegionSelector {
  /** @returns undefined if no region is available, or the list cannot be read */
  nearest(
    connection: Connection,
    options?: CallOptions,
  ): Promise<{ readonly id: string; readonly url: string } | undefined>;
  /** Excludes a region for a while. */
  markFailed(id: string): void;
}

/**
 * Lists the regions, nearest first.
 *
 * @throws EdgeTierError, or the reason of the caller's signal
 * @example
 * import { connect, listRegions } from "edgetier/client";
 *
 * const regions = await listRegions(connect({ url: "https://predict.example.com" }));
 * console.log(regions.map(({ id, distanceKm, health }) => ({ id, distanceKm, health })));
 */
export const listRegions = async (
  connection: Connection,
  options: CallOptions = {},
): Promise<RegionList["regions"]> =>
  (await send(connection, "/v1/regions", {}, readJsonBody<RegionList>, options)).regions;

/** Limits on the part of a call's time that the list may take. */
const MAX_LIST_MS = 1_000;
const MAX_LIST_SHARE = 0.25;

/**
 * Creates a region selector that caches the edge's list.
 *
 * @param retentionMs how long a list is valid, and how long a failed region is excluded
 * @example
 * import { connect, createRegionSelector, infer } from "edgetier/client";
 *
 * const connection = connect({ url: "https://predict.example.com" });
 * const regions = createRegionSelector();
 * const inputs = { x: { datatype: "FP32", shape: [1, 1], data: Float32Array.of(1) } } as const;
 * const { outputs, region } = await infer(connection, "scale", inputs, { regions });
 */
export function createRegionSelector(retentionMs = 60_000): RegionSelector {
  let list: RegionList["regions"] = [];
  let expiresAtMs = Number.NEGATIVE_INFINITY;
  const failedIds = new Set<string>();
  return {
    async nearest(connection, options = {}) {
      const nowMs = connection.clock.now();
      if (nowMs >= expiresAtMs) {
        expiresAtMs = nowMs + retentionMs;
        failedIds.clear();
        const timeoutMs = Math.min(
          MAX_LIST_MS,
          MAX_LIST_SHARE * (computeCallEndMs(connection, options) - nowMs),
        );
        const listOptions = { ...options, timeoutMs, maxRetries: 0 };
        list = await listRegions(connection, listOptions).catch(() => []);
      }
      const { id, url } =
        list.find(
          (region) =>
            region.url !== undefined && region.health !== "unhealthy" && !failedIds.has(region.id),
        ) ?? {};
      return id === undefined || url === undefined ? undefined : { id, url };
    },
    markFailed: (id) => void failedIds.add(id),
  };
}
