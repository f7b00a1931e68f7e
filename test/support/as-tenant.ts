// Wraps the application for one tenant, which is set in the same place as by access control. No imports from Node: suites in workerd use it.
import { Hono } from "hono";
import type { AppEnv } from "../../src/http/app-env.ts";
import type { createApp } from "../../src/http/app.ts";

export function asTenant(tenant: string, app: ReturnType<typeof createApp>): Hono<AppEnv> {
  const outer = new Hono<AppEnv>();
  outer.use(async (c, next) => {
    c.set("tenant", tenant);
    await next();
  });
  return outer.route("/", app);
}
