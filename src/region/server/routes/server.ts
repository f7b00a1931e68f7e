// The server's own routes: health, metadata, metrics; and Triton's that are refused, so that a client learns why.

import { coreErrors } from "../../../core/common-errors.ts";
import type { Hono } from "hono";
import type { ServerMetadata } from "../../../protocol/open-inference.ts";
import type { Lifecycle } from "../lifecycle.ts";
import { addRoute, modelPaths, sendBody, sendJson, type RegionEnv } from "./route-helpers.ts";

export interface ServerRouteDependencies {
  readonly lifecycle: Lifecycle;
  readonly version: string;
  /** In a format of Prometheus. */
  readonly metrics?: MetricsExporter | undefined;
}

export interface MetricsExporter {
  readonly contentType: string;
  render(): Promise<string>;
}

const EXTENSIONS = [
  "binary_tensor_data",
  "classification",
  "model_configuration",
  "model_repository",
  "parameters",
  "schedule_policy",
  "statistics",
];

const SHARED_MEMORY = ["system", "cuda"].flatMap((kind) =>
  ["status", "register", "unregister"].flatMap((action) => [
    `/v2/${kind}sharedmemory/${action}`,
    `/v2/${kind}sharedmemory/region/:region/${action}`,
  ]),
);

export function addServerRoutes(
  app: Hono<RegionEnv>,
  { lifecycle, version, metrics }: ServerRouteDependencies,
): void {
  addRoute(app, "metadata", ["GET"], ["/v2", "/v2/"], (c) =>
    sendJson(c, {
      name: "edgetier-region",
      version,
      extensions: EXTENSIONS,
    } satisfies ServerMetadata),
  );
  addRoute(app, "live", ["GET"], ["/v2/health/live"], async (c) => c.body(null, 200));
  addRoute(app, "ready", ["GET"], ["/v2/health/ready"], async (c) =>
    c.body(null, lifecycle.state === "serving" ? 200 : 400),
  );

  if (metrics !== undefined) {
    addRoute(
      app,
      "metrics",
      ["GET"],
      ["/metrics"],
      async (c) =>
        await sendBody(c, new TextEncoder().encode(await metrics.render()), {
          "content-type": metrics.contentType,
        }),
    );
  }

  const refuse = (paths: readonly string[], what: string, remedy: string) =>
    addRoute(app, "unsupported", ["GET", "POST"], paths, async () => {
      throw coreErrors.unsupported(what, remedy);
    });
  refuse(
    ["/v2/trace/setting", "/v2/models/:model/trace/setting"],
    "Triton's tracing",
    "Send `traceparent`: it is in the log of every failure.",
  );
  refuse(
    ["/v2/logging"],
    "Changing the log's settings",
    "The log has one JSON object a line; choose from it where it is collected.",
  );
  refuse(SHARED_MEMORY, "Shared memory", "Send the tensors' data in the request.");
  refuse(
    [...modelPaths("/generate"), ...modelPaths("/generate_stream")],
    "The generate extension",
    "Use POST /v2/models/{model}/infer.",
  );
}
