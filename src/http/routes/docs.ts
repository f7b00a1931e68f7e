// Documentation routes: /openapi.json, and /docs, a page rendered from it.

import { Hono } from "hono";
import { toBase64 } from "../../core/base64.ts";
import type { AppEnv } from "../app-env.ts";
import { renderDocsPage, DOCS_PAGE_CSS } from "../docs-page.ts";
import { type OpenApiDocument, buildOpenApiDocument } from "../openapi.ts";

export function docsRoutes(): Hono<AppEnv> {
  const routes = new Hono<AppEnv>();
  let document: OpenApiDocument | undefined; // built on first use, to keep startup short
  const getDocument = () => (document ??= buildOpenApiDocument());

  routes.get("/", (c) => c.redirect("/docs"));
  routes.get("/openapi.json", (c) => c.json(getDocument()));
  routes.get("/docs", async (c) => {
    const styleHash = toBase64(
      new Uint8Array(
        await crypto.subtle.digest("SHA-256", new TextEncoder().encode(DOCS_PAGE_CSS)),
      ),
    );
    c.header(
      "content-security-policy",
      `default-src 'none'; style-src 'sha256-${styleHash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
    );
    return c.html(renderDocsPage(getDocument(), new URL(c.req.url).origin));
  });
  return routes;
}
