// /openapi.json, and /docs: a page made from it.

import { Hono } from "hono";
import type { AppEnv } from "../app-env.ts";
import { docsPage } from "../docs-page.ts";
import { type OpenApiDocument, openApiDocument } from "../openapi.ts";

export function docsRoutes(): Hono<AppEnv> {
  const routes = new Hono<AppEnv>();
  let document: OpenApiDocument | undefined; // made when it is first asked for: start-up stays short
  const get = () => (document ??= openApiDocument());

  routes.get("/", (c) => c.redirect("/docs"));
  routes.get("/openapi.json", (c) => c.json(get()));
  routes.get("/docs", (c) => {
    c.header("content-security-policy", "default-src 'none'; style-src 'unsafe-inline'");
    return c.html(docsPage(get(), new URL(c.req.url).origin));
  });
  return routes;
}
