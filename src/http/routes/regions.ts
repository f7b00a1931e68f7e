// GET /v1/regions: the regions behind this edge, for clients that choose one themselves.

import { Hono } from "hono";
import type { RegionList } from "../../protocol/region-list.ts";
import type { RegionPool } from "../../region/client/region-pool.ts";
import type { AppEnv } from "../app-env.ts";

/** @param pool undefined where no region is configured */
export function regionRoutes(pool: Pick<RegionPool, "listRegions"> | undefined): Hono<AppEnv> {
  const routes = new Hono<AppEnv>();
  routes.get("/v1/regions", (c) => {
    c.header("cache-control", "no-store"); // it is this isolate's view, from this client's place
    return c.json({ regions: pool?.listRegions(c.get("context").geo) ?? [] } satisfies RegionList);
  });
  return routes;
}
