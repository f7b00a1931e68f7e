// Report route: GET /v1/models/{model}/report returns the calibration report that was published with a version.

import { Hono } from "hono";
import type { ModelCatalog } from "../../serving/model-catalog.ts";
import { parseRequestedModel } from "../access/requested-model.ts";
import type { AppEnv } from "../app-env.ts";
import { httpErrors } from "../errors.ts";
import { matchesEtag } from "../etag.ts";

export function reportRoutes(
  catalog: Pick<ModelCatalog, "resolve" | "readArtifact">,
): Hono<AppEnv> {
  const routes = new Hono<AppEnv>();
  routes.get("/v1/models/:model/report", async (c) => {
    const { manifest } = await catalog.resolve(
      parseRequestedModel(c, c.req.param("model")),
      c.get("context"),
    );
    const report = "report" in manifest ? manifest.report : undefined;
    if (report === undefined) throw httpErrors.noReport(manifest.model, manifest.version);
    c.header("etag", `"${report.sha256.slice(0, 32)}"`);
    c.header("cache-control", "private, no-cache");
    if (matchesEtag(c.req.header("if-none-match"), `"${report.sha256.slice(0, 32)}"`))
      return c.body(null, 304);
    return c.body(await catalog.readArtifact(report), 200, {
      "content-type": "application/json",
    });
  });
  return routes;
}
