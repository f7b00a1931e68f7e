// Edge app: assembles middleware and routes. All dependencies are injected, so that it runs in workerd, Node and tests.

import { Hono } from "hono";
import { requestId } from "hono/request-id";
import type { Clock } from "../core/clock.ts";
import { passthroughTracer, type Tracer } from "../core/tracing.ts";
import { protocolErrors } from "../protocol/errors.ts";
import type { RegionPool } from "../region/client/region-pool.ts";
import type { EdgeSessions } from "../serving/edge-sessions.ts";
import type { Embedder } from "../serving/embedder.ts";
import type { ModelCatalog } from "../serving/model-catalog.ts";
import type { OpenInferenceModels } from "../serving/open-inference-models.ts";
import type { Predictor } from "../serving/predictor.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import { type AccessPolicy, OPEN_ACCESS } from "./access/access-policy.ts";
import type { AppEnv } from "./app-env.ts";
import { accessControl } from "./middleware/access-control.ts";
import { type BodyLimits, bodyLimit } from "./middleware/body-limit.ts";
import { browserHeaders } from "./middleware/browser-headers.ts";
import { errorHandler } from "./middleware/error-handler.ts";
import { INFERENCE_PATHS, loadShedding } from "./middleware/load-shedding.ts";
import { attachRequestContext } from "./middleware/request-context.ts";
import { requestMetrics } from "./middleware/request-metrics.ts";
import { requestTracing } from "./middleware/request-tracing.ts";
import { rejectOtherMethods } from "./reject-other-methods.ts";
import { docsRoutes } from "./routes/docs.ts";
import { embeddingsRoutes } from "./routes/embeddings.ts";
import { healthRoutes } from "./routes/health.ts";
import { metricsRoutes } from "./routes/metrics.ts";
import { modelRoutes } from "./routes/models.ts";
import { openInferenceRoutes } from "./routes/open-inference.ts";
import { predictRoutes } from "./routes/predict.ts";
import { regionRoutes } from "./routes/regions.ts";
import { reportRoutes } from "./routes/report.ts";

export interface AppDependencies extends BodyLimits {
  readonly catalog: ModelCatalog;
  readonly predictor: Predictor;
  readonly embedder: Embedder;
  /** Model of embeddings requests that name none. */
  readonly defaultEmbeddingModel?: string | undefined;
  readonly openInferenceModels: OpenInferenceModels;
  readonly sessions: Pick<EdgeSessions, "tierStatusOf">;
  /** Public by default. */
  readonly access?: AccessPolicy;
  /** Undefined if no region is configured. */
  readonly regionPool?: Pick<RegionPool, "listRegions"> | undefined;
  /** Metrics are off by default. */
  readonly telemetry?: Telemetry | undefined;
  readonly clock: Clock;
  /** Lifetime of an alias's responses in CDNs, in seconds; 0 by default. */
  readonly cdnAliasSeconds?: number;
  readonly log: (record: Readonly<Record<string, unknown>>) => void;
  /** The default tracer only propagates the incoming context. */
  readonly tracer?: Tracer;
  /** Whether the app writes one log record per request. */
  readonly isAccessLogEnabled?: boolean;
  /** Maximum number of concurrent inference requests. */
  readonly maxInFlight: number;
  /** Maximum size of a decompressed body under /v2, in bytes. */
  readonly maxTensorBodyBytes: number;
}

export function createApp(dependencies: AppDependencies): Hono<AppEnv> {
  const { catalog, openInferenceModels, clock, log, maxTensorBodyBytes } = dependencies;
  const app = new Hono<AppEnv>();
  app.onError(errorHandler(log));
  app.notFound((c) => {
    throw protocolErrors.routeNotFound(c.req.path);
  });

  app.use(requestId());
  app.use(...browserHeaders(dependencies.access ?? OPEN_ACCESS));
  app.use(
    requestTracing({
      tracer: dependencies.tracer ?? passthroughTracer,
      clock,
      log: dependencies.isAccessLogEnabled === true ? log : undefined,
    }),
  );
  app.use(attachRequestContext(clock));
  if (dependencies.telemetry !== undefined) app.use(requestMetrics(dependencies.telemetry, clock));
  app.use(...accessControl(dependencies.access ?? OPEN_ACCESS));
  const shedding = loadShedding({ maxInFlight: dependencies.maxInFlight, clock });
  for (const path of INFERENCE_PATHS) app.use(path, shedding);
  app.use("/v1/*", bodyLimit(dependencies));
  app.route(
    "/",
    predictRoutes(dependencies.predictor, { cdnAliasSeconds: dependencies.cdnAliasSeconds ?? 0 }),
  );
  app.route("/", embeddingsRoutes(dependencies.embedder, dependencies.defaultEmbeddingModel));
  app.route("/", modelRoutes(catalog, dependencies.sessions));
  app.route("/", reportRoutes(catalog));
  app.route("/", regionRoutes(dependencies.regionPool));
  app.route("/", healthRoutes(catalog));
  app.route(
    "/",
    openInferenceRoutes({ catalog, models: openInferenceModels, maxBodyBytes: maxTensorBodyBytes }),
  );
  app.route("/", metricsRoutes(dependencies.telemetry, clock));
  app.route("/", docsRoutes());
  rejectOtherMethods(app);
  return app;
}
