// Server routes: health, metadata, metrics, and Triton's unsupported routes, which explain the reason to the client.

import type { Hono } from "hono";
import { coreErrors } from "../../../core/common-errors.ts";
import type { ServerMetadata } from "../../../protocol/open-inference.ts";
import type { Lifecycle } from "../lifecycle.ts";
import { addRoute, modelPaths, sendBody, sendJson, type RegionEnv } from "./route-helpers.ts";

export interface ServerRouteDependencies {
  readonly lifecycle: Lifecycle;
  readonly version: string;
  /** Metrics in a Prometheus format. */
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

  const addUnsupported = (paths: readonly string[], feature: string, remedy: string) =>
    addRoute(app, "unsupported", ["GET", "POST"], paths, async () => {
      throw coreErrors.unsupported(feature, remedy);
    });
  addUnsupported(
    ["/v2/trace/setting", "/v2/models/:model/trace/setting"],
    "Triton's tracing",
    "Send `traceparent`; the log contains it for every failure.",
  );
  addUnsupported(
    ["/v2/logging"],
    "Changing the log settings",
    "Filter the log, which has one JSON object per line, where it is collected.",
  );
  addUnsupported(SHARED_MEMORY, "Shared memory", "Send the tensors' data in the request.");
  addUnsupported(
    [...modelPaths("/generate"), ...modelPaths("/generate_stream")],
    "The generate extension",
    "Use POST /v2/models/{model}/infer.",
  );
}
