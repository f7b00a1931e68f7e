// Health routes: liveness and readiness, at the paths of the Open Inference Protocol.

import { Hono } from "hono";
import { asEdgeTierError } from "../../core/errors.ts";
import type { ModelCatalog } from "../../serving/model-catalog.ts";
import type { AppEnv } from "../app-env.ts";

export function healthRoutes(catalog: ModelCatalog): Hono<AppEnv> {
  const routes = new Hono<AppEnv>();
  routes.get("/v2/health/live", (c) => c.body(null, 200));
  routes.get("/v2/health/ready", async (c) => {
    try {
      await catalog.listModels();
      return c.body(null, 200);
    } catch (error) {
      return c.json({ error: asEdgeTierError(error).message }, 400);
    }
  });
  return routes;
}
