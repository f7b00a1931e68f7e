// Which region to ask directly: the nearest of those that have an address for clients, as the edge lists them for this caller.

import type { RegionList } from "../protocol/region-list.ts";
import { type CallOptions, type Connection, endsAtMsOf, readJsonBody, send } from "./connection.ts";

export interface Regions {
  /** @returns undefined where no region may be asked, or the list cannot be had */
  nearest(
    connection: Connection,
    call?: CallOptions,
  ): Promise<{ readonly id: string; readonly url: string } | undefined>;
  /** Not to be asked for a while. */
  leaveAlone(id: string): void;
}

export const listRegions = async (
  connection: Connection,
  call: CallOptions = {},
): Promise<RegionList["regions"]> =>
  (await send(connection, "/v1/regions", {}, readJsonBody<RegionList>, call)).regions;

/** The list is worth so much of a call's time. */
const MAX_LIST_MS = 1_000;
const MAX_LIST_SHARE = 0.25;

/** @param keptMs for how long a list holds, and a region that failed is left alone */
export function createRegions(keptMs = 60_000): Regions {
  let list: RegionList["regions"] = [];
  let goodUntilMs = Number.NEGATIVE_INFINITY;
  const failed = new Set<string>();
  return {
    async nearest(connection, call = {}) {
      const nowMs = connection.clock.now();
      if (nowMs >= goodUntilMs) {
        goodUntilMs = nowMs + keptMs;
        failed.clear();
        const timeoutMs = Math.min(
          MAX_LIST_MS,
          MAX_LIST_SHARE * (endsAtMsOf(connection, call) - nowMs),
        );
        list = await listRegions(connection, { ...call, timeoutMs, retries: 0 }).catch(() => []);
      }
      const { id, url } =
        list.find(
          (region) =>
            region.url !== undefined && region.health !== "unhealthy" && !failed.has(region.id),
        ) ?? {};
      return id === undefined || url === undefined ? undefined : { id, url };
    },
    leaveAlone: (id) => void failed.add(id),
  };
}
