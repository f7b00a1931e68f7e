// The region's HTTP interface: the Open Inference Protocol v2 with Triton's extensions and statuses, as a Hono app.

import { protocolErrors } from "../../protocol/errors.ts";
import { Hono, type MiddlewareHandler } from "hono";
import { requestId } from "hono/request-id";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import type { Clock } from "../../core/clock.ts";
import { asEdgeTierError, type EdgeTierError } from "../../core/errors.ts";
import { passingTracer, type RequestTrace, type Tracer, type WaitUntil } from "../../core/span.ts";
import { tritonStatus } from "../../protocol/http.ts";
import type { Permits } from "./batching/permits.ts";
import { createPreciseClock } from "./batching/precise-clock.ts";
import type { Executor } from "./executor.ts";
import type { InferOutcome } from "./infer.ts";
import type { Lifecycle } from "./lifecycle.ts";
import { addLoadReport } from "./load-report.ts";
import type { ModelRepository } from "./model-repository.ts";
import { NO_MODELS_CONFIG, type ModelsConfig } from "./models-config.ts";
import { addInferRoute } from "./routes/infer.ts";
import { addModelRoutes } from "./routes/models.ts";
import { addRepositoryRoutes } from "./routes/repository.ts";
import type { Action, Env, RegionContext } from "./routes/route.ts";
import { addServerRoutes, type MetricsPage } from "./routes/server.ts";
import { type SharedRuns, unsharedRuns } from "./shared-runs.ts";
import { createStatistics, type Statistics } from "./statistics.ts";

export interface RegionAppDependencies {
  readonly repository: ModelRepository;
  readonly executor: Executor;
  readonly lifecycle: Lifecycle;
  /** Of EdgeTier, for the server's metadata. */
  readonly version: string;
  readonly clock?: Clock;
  /** Of infer requests; without any, their number is not bounded before they reach the executor. */
  readonly permits?: Permits;
  /** Without them, each request has a run of its own, or a place in one. */
  readonly sharedRuns?: SharedRuns;
  /** Without one, everyone is believed. */
  readonly gate?: MiddlewareHandler<Env> | undefined;
  /** What `/v2/models/stats` answers; fed by the executor's and the repository's events, and by `onOutcome`. */
  readonly statistics?: Statistics;
  /** What `/metrics` answers; there is no such route without it. */
  readonly metrics?: MetricsPage;
  /** What the repository was made with, for what `/v2/models/{model}/config` says of it. */
  readonly config?: ModelsConfig;
  /** Of a request body, decompressed. */
  readonly maxBodyBytes?: number;
  /** Inputs of the task's own kind in one request. */
  readonly maxRows?: number;
  /** Called once for every infer request that reached a model with the right inputs. */
  readonly onOutcome?: (outcome: InferOutcome) => void;
  /** Of infer requests; by default their context goes into the log alone. */
  readonly tracer?: Tracer;
  /** Called once for every request. */
  readonly onAnswer?: (answer: RegionAnswer) => void;
  /** Called with every failure that is not the client's. */
  readonly onFailure?: (failure: RegionFailure) => void;
}

export interface RegionAnswer {
  readonly action: Action;
  readonly status: number;
  readonly durationMs: number;
  readonly requestId: string;
  readonly traceId: string | undefined;
}

export interface RegionFailure {
  readonly event: "request_failed";
  readonly requestId: string;
  readonly traceId: string | undefined;
  readonly error: unknown;
}

/** In traces, with a version or without. */
const ROUTE = "/v2/models/:model/infer";
const whenItCan: WaitUntil = (work) => void work;

const NO_LIMIT: Permits = { takenShare: 0, take: () => () => {} };

export function createRegionApp(dependencies: RegionAppDependencies): Hono<Env> {
  const {
    repository,
    executor,
    lifecycle,
    version,
    metrics,
    clock = createPreciseClock(),
    permits = NO_LIMIT,
    sharedRuns = unsharedRuns,
    statistics = createStatistics(clock),
    config = NO_MODELS_CONFIG,
  } = dependencies;
  const {
    maxBodyBytes = 8_388_608,
    maxRows = 256,
    onOutcome = () => {},
    onAnswer = () => {},
    onFailure = () => {},
    tracer = passingTracer,
  } = dependencies;
  const app = new Hono<Env>();

  app.use(requestId());
  app.use(async function observe(c, next) {
    const startedMs = clock.now();
    c.set("action", "other");
    const trace = tracer.startRequest((name) => c.req.header(name));
    c.set("span", trace.span);
    await next();
    trace.finish(whenItCan, endOf(c));
    // So that no client sends its next request into a connection that is about to close.
    if (lifecycle.state === "leaving" || lifecycle.state === "draining")
      c.header("connection", "close");
    onAnswer({
      action: c.get("action"),
      status: c.res.status,
      durationMs: clock.now() - startedMs,
      requestId: c.get("requestId"),
      traceId: c.get("span").traceId,
    });
  });
  if (dependencies.gate !== undefined) app.use(dependencies.gate);
  const refuse = (c: RegionContext, error: EdgeTierError): Response => {
    const isOurs = error.status >= 500 && error.status !== 501;
    if (isOurs)
      onFailure({
        event: "request_failed",
        requestId: c.get("requestId"),
        traceId: c.get("span").traceId,
        error: error.cause ?? error,
      });
    if (error.retryAfterSeconds !== undefined)
      c.header("retry-after", String(error.retryAfterSeconds));
    if (error.status === 401) c.header("www-authenticate", "Signature");
    if (error.code === "unsupported_encoding") c.header("accept-encoding", "gzip, deflate");
    return c.json({ error: error.message }, tritonStatus(error) as ContentfulStatusCode);
  };
  app.onError((thrown, c) => refuse(c, asEdgeTierError(thrown)));
  app.notFound((c) => refuse(c, protocolErrors.routeNotFound(c.req.path)));

  addServerRoutes(app, { lifecycle, version, metrics });
  addRepositoryRoutes(app, repository);
  addModelRoutes(app, { repository, statistics, config });
  addLoadReport(app, { lifecycle, executor, permits, clock });
  addInferRoute(app, {
    repository,
    executor,
    sharedRuns,
    lifecycle,
    permits,
    clock,
    maxBodyBytes,
    maxRows,
    onOutcome,
  });
  return app;
}

/** Undefined for what is no inference: that is not traced. */
function endOf(c: RegionContext): Parameters<RequestTrace["finish"]>[1] {
  if (c.get("action") !== "infer") return undefined;
  const { status } = c.res;
  const error = c.error && asEdgeTierError(c.error).code;
  const facts = {
    "http.request.method": "POST",
    "http.route": ROUTE,
    "http.response.status_code": status,
    "edgetier.request_id": c.get("requestId"),
  };
  return {
    name: `POST ${ROUTE}`,
    facts: { ...facts, ...(error && { "error.type": error }) },
    error: status >= 500 ? (error ?? String(status)) : undefined,
  };
}
