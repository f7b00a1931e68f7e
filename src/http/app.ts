// The edge's HTTP application. Everything it needs is injected, so that it runs in workerd, in Node and in tests alike.

import { protocolErrors } from "../protocol/errors.ts";
import { Hono } from "hono";
import { requestId } from "hono/request-id";
import type { Clock } from "../core/clock.ts";
import { passingTracer, type Tracer } from "../core/span.ts";
import type { RegionPool } from "../region/client/region-pool.ts";
import type { Catalogue } from "../serving/catalogue.ts";
import type { EdgeSessions } from "../serving/edge-sessions.ts";
import type { Embedder } from "../serving/embedder.ts";
import type { Predictor } from "../serving/predictor.ts";
import type { TensorModels } from "../serving/tensor-models.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import { type Access, OPEN_ACCESS } from "./access/access.ts";
import type { AppEnv } from "./app-env.ts";
import { access } from "./middleware/access.ts";
import { browserHeaders } from "./middleware/browser-headers.ts";
import { context } from "./middleware/context.ts";
import { type BodyLimits, limitBodies } from "./middleware/limit-bodies.ts";
import { measure } from "./middleware/measure.ts";
import { observe } from "./middleware/observe.ts";
import { problems } from "./middleware/problems.ts";
import { COMPUTING_PATHS, shed } from "./middleware/shed.ts";
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
  readonly catalogue: Catalogue;
  readonly predictor: Predictor;
  readonly embedder: Embedder;
  /** Of requests for embeddings that name none. */
  readonly embeddingModel?: string | undefined;
  readonly tensors: TensorModels;
  readonly sessions: Pick<EdgeSessions, "servingOf">;
  /** Open to everybody by default. */
  readonly access?: Access;
  /** Undefined where no region is configured. */
  readonly regions?: Pick<RegionPool, "regions"> | undefined;
  /** Nothing is counted by default. */
  readonly telemetry?: Telemetry | undefined;
  readonly clock: Clock;
  /** For how long CDNs keep an alias's answers; not at all by default. */
  readonly cdnAliasSeconds?: number;
  readonly log: (record: Readonly<Record<string, unknown>>) => void;
  /** Passes on what comes, by default. */
  readonly tracer?: Tracer;
  /** Whether each request is logged. */
  readonly logsAccess?: boolean;
  /** Requests that compute at the same time. */
  readonly maxInFlight: number;
  /** Of a request under /v2, which brings tensors. */
  readonly maxTensorBodyBytes: number;
}

export function createApp(dependencies: AppDependencies): Hono<AppEnv> {
  const { catalogue, tensors, clock, log, maxTensorBodyBytes } = dependencies;
  const app = new Hono<AppEnv>();
  app.onError(problems(log));
  app.notFound((c) => {
    throw protocolErrors.routeNotFound(c.req.path);
  });

  app.use(requestId());
  app.use(...browserHeaders(dependencies.access ?? OPEN_ACCESS));
  app.use(
    observe({
      tracer: dependencies.tracer ?? passingTracer,
      clock,
      log: dependencies.logsAccess === true ? log : undefined,
    }),
  );
  app.use(context(clock));
  if (dependencies.telemetry !== undefined) app.use(measure(dependencies.telemetry, clock));
  app.use(...access(dependencies.access ?? OPEN_ACCESS));
  const shedding = shed({ maxInFlight: dependencies.maxInFlight, clock });
  for (const path of COMPUTING_PATHS) app.use(path, shedding);
  app.use("/v1/*", limitBodies(dependencies));
  app.route(
    "/",
    predictRoutes(dependencies.predictor, { aliasSeconds: dependencies.cdnAliasSeconds ?? 0 }),
  );
  app.route("/", embeddingsRoutes(dependencies.embedder, dependencies.embeddingModel));
  app.route("/", modelRoutes(catalogue, dependencies.sessions));
  app.route("/", reportRoutes(catalogue));
  app.route("/", regionRoutes(dependencies.regions));
  app.route("/", healthRoutes(catalogue));
  app.route("/", openInferenceRoutes({ catalogue, tensors, maxBodyBytes: maxTensorBodyBytes }));
  app.route("/", metricsRoutes(dependencies.telemetry, clock));
  app.route("/", docsRoutes());
  return app;
}
