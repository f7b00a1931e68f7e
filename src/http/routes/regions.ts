// Regions route: GET /v1/regions lists the regions behind this edge, for clients that choose one themselves.

import { Hono } from "hono";
import type { RegionList } from "../../protocol/region-list.ts";
import type { RegionPool } from "../../region/client/region-pool.ts";
import type { AppEnv } from "../app-env.ts";

/** @param pool undefined if no region is configured */
export function regionRoutes(pool: Pick<RegionPool, "listRegions"> | undefined): Hono<AppEnv> {
  const routes = new Hono<AppEnv>();
  routes.get("/v1/regions", (c) => {
    c.header("cache-control", "no-store"); // depends on the isolate and the client's location
    return c.json({ regions: pool?.listRegions(c.get("context").geo) ?? [] } satisfies RegionList);
  });
  return routes;
}
