// The edge's HTTP application. Everything it needs is injected, so that it runs in workerd, in Node and in tests alike.

import { Hono, type MiddlewareHandler } from "hono";
import { bodyLimit } from "hono/body-limit";
import { requestId } from "hono/request-id";
import type { Clock } from "../core/clock.ts";
import { errors } from "../core/errors.ts";
import type { Catalogue } from "../serving/catalogue.ts";
import type { EdgeSessions } from "../serving/edge-sessions.ts";
import type { Embedder } from "../serving/embedder.ts";
import type { Predictor } from "../serving/predictor.ts";
import type { TensorModels } from "../serving/tensor-models.ts";
import { type Access, OPEN_ACCESS } from "./access/access.ts";
import type { AppEnv } from "./app-env.ts";
import { access } from "./middleware/access.ts";
import { browserHeaders } from "./middleware/browser-headers.ts";
import { context } from "./middleware/context.ts";
import { problems } from "./middleware/problems.ts";
import { mediaTypeOf } from "./request-body.ts";
import { docsRoutes } from "./routes/docs.ts";
import { embeddingsRoutes } from "./routes/embeddings.ts";
import { healthRoutes } from "./routes/health.ts";
import { modelRoutes } from "./routes/models.ts";
import { openInferenceRoutes } from "./routes/open-inference.ts";
import { predictRoutes } from "./routes/predict.ts";

export interface AppDependencies {
  readonly catalogue: Catalogue;
  readonly predictor: Predictor;
  readonly embedder: Embedder;
  /** Of requests for embeddings that name none. */
  readonly embeddingModel?: string | undefined;
  readonly tensors: TensorModels;
  readonly sessions: Pick<EdgeSessions, "servingOf">;
  /** Open to everybody by default. */
  readonly access?: Access;
  readonly clock: Clock;
  readonly log: (record: Readonly<Record<string, unknown>>) => void;
  readonly maxBodyBytes: number;
  /** Of a request whose body is an image. */
  readonly maxImageBodyBytes: number;
  /** Of a request under /v2, which brings tensors. */
  readonly maxTensorBodyBytes: number;
}

export function createApp(dependencies: AppDependencies): Hono<AppEnv> {
  const { catalogue, tensors, clock, log, maxTensorBodyBytes } = dependencies;
  const app = new Hono<AppEnv>();
  app.onError(problems(log));
  app.notFound((c) => {
    throw errors.routeNotFound(c.req.path);
  });

  app.use(requestId());
  app.use(...browserHeaders(dependencies.access ?? OPEN_ACCESS));
  app.use(context(clock));
  app.use(...access(dependencies.access ?? OPEN_ACCESS));
  const forImages = limitBody(dependencies.maxImageBodyBytes);
  const forOthers = limitBody(dependencies.maxBodyBytes);
  app.use("/v1/*", (c, next) => (mediaTypeOf(c.req).startsWith("image/") ? forImages : forOthers)(c, next));
  app.route("/", predictRoutes(dependencies.predictor));
  app.route("/", embeddingsRoutes(dependencies.embedder, dependencies.embeddingModel));
  app.route("/", modelRoutes(catalogue, dependencies.sessions));
  app.route("/", healthRoutes(catalogue));
  app.route("/", openInferenceRoutes({ catalogue, tensors, maxBodyBytes: maxTensorBodyBytes }));
  app.route("/", docsRoutes());
  return app;
}

function limitBody(maxSize: number): MiddlewareHandler {
  const onError = () => {
    throw errors.bodyTooLarge(maxSize);
  };
  return bodyLimit({ maxSize, onError });
}
