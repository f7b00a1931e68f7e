// The region's HTTP interface: the Open Inference Protocol v2 with Triton's extensions and statuses, as a Hono app.

import { protocolErrors } from "../../protocol/errors.ts";
import { Hono, type MiddlewareHandler } from "hono";
import { requestId } from "hono/request-id";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import type { Clock } from "../../core/clock.ts";
import { asEdgeTierError, type EdgeTierError } from "../../core/errors.ts";
import {
  passthroughTracer,
  type RequestTrace,
  type Tracer,
  type WaitUntil,
} from "../../core/tracing.ts";
import { toTritonStatus } from "../../protocol/open-inference-http.ts";
import type { ConcurrencyLimiter } from "./batching/concurrency-limiter.ts";
import { createPreciseClock } from "./batching/precise-clock.ts";
import type { Executor } from "./executor.ts";
import type { InferOutcome } from "./infer.ts";
import type { Lifecycle } from "./lifecycle.ts";
import { addLoadReportHeader } from "./load-report.ts";
import type { ModelRepository } from "./model-repository.ts";
import { EMPTY_OPERATOR_CONFIG, type OperatorConfig } from "./operator-config.ts";
import { addInferRoute } from "./routes/infer.ts";
import { addModelRoutes } from "./routes/models.ts";
import { addRepositoryRoutes } from "./routes/repository.ts";
import type { RouteAction, RegionEnv, RegionContext } from "./routes/route-helpers.ts";
import { addServerRoutes, type MetricsExporter } from "./routes/server.ts";
import { type RequestCoalescer, noCoalescing } from "./request-coalescing.ts";
import { createInferenceStatistics, type InferenceStatistics } from "./statistics.ts";

export interface RegionAppDependencies {
  readonly repository: ModelRepository;
  readonly executor: Executor;
  readonly lifecycle: Lifecycle;
  /** Of EdgeTier, for the server's metadata. */
  readonly version: string;
  readonly clock?: Clock;
  /** Of infer requests; without any, their number is not bounded before they reach the executor. */
  readonly concurrencyLimiter?: ConcurrencyLimiter;
  /** Without them, each request has a run of its own, or a place in one. */
  readonly coalescer?: RequestCoalescer;
  /** Without one, everyone is believed. */
  readonly authentication?: MiddlewareHandler<RegionEnv> | undefined;
  /** What `/v2/models/stats` answers; fed by the executor's and the repository's events, and by `onOutcome`. */
  readonly statistics?: InferenceStatistics;
  /** What `/metrics` answers; there is no such route without it. */
  readonly metrics?: MetricsExporter;
  /** What the repository was made with, for what `/v2/models/{model}/config` says of it. */
  readonly operatorConfig?: OperatorConfig;
  /** Of a request body, decompressed. */
  readonly maxBodyBytes?: number;
  /** Inputs of the task's own kind in one request. */
  readonly maxRows?: number;
  /** Called once for every infer request that reached a model with the right inputs. */
  readonly onOutcome?: (outcome: InferOutcome) => void;
  /** Of infer requests; by default their context goes into the log alone. */
  readonly tracer?: Tracer;
  /** Called once for every request. */
  readonly onResponse?: (answer: RegionResponseEvent) => void;
  /** Called with every failure that is not the client's. */
  readonly onRequestFailed?: (failure: RequestFailureEvent) => void;
}

export interface RegionResponseEvent {
  readonly action: RouteAction;
  readonly status: number;
  readonly durationMs: number;
  readonly requestId: string;
  readonly traceId: string | undefined;
}

export interface RequestFailureEvent {
  readonly event: "request_failed";
  readonly requestId: string;
  readonly traceId: string | undefined;
  readonly error: unknown;
}

/** In traces, with a version or without. */
const TRACE_ROUTE = "/v2/models/:model/infer";
const ignoreCompletion: WaitUntil = (work) => void work;

const unlimited: ConcurrencyLimiter = { utilization: 0, acquire: () => () => {} };

export function createRegionApp(dependencies: RegionAppDependencies): Hono<RegionEnv> {
  const {
    repository,
    executor,
    lifecycle,
    version,
    metrics,
    clock = createPreciseClock(),
    concurrencyLimiter: permits = unlimited,
    coalescer: sharedRuns = noCoalescing,
    statistics = createInferenceStatistics(clock),
    operatorConfig: config = EMPTY_OPERATOR_CONFIG,
  } = dependencies;
  const {
    maxBodyBytes = 8_388_608,
    maxRows = 256,
    onOutcome = () => {},
    onResponse: onAnswer = () => {},
    onRequestFailed: onFailure = () => {},
    tracer = passthroughTracer,
  } = dependencies;
  const app = new Hono<RegionEnv>();

  app.use(requestId());
  app.use(async function observe(c, next) {
    const startedMs = clock.now();
    c.set("action", "other");
    const trace = tracer.startRequest((name) => c.req.header(name));
    c.set("span", trace.span);
    await next();
    trace.finish(ignoreCompletion, traceEndOf(c));
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
  if (dependencies.authentication !== undefined) app.use(dependencies.authentication);
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
    return c.json({ error: error.message }, toTritonStatus(error) as ContentfulStatusCode);
  };
  app.onError((thrown, c) => refuse(c, asEdgeTierError(thrown)));
  app.notFound((c) => refuse(c, protocolErrors.routeNotFound(c.req.path)));

  addServerRoutes(app, { lifecycle, version, metrics });
  addRepositoryRoutes(app, repository);
  addModelRoutes(app, { repository, statistics, operatorConfig: config });
  addLoadReportHeader(app, { lifecycle, executor, concurrencyLimiter: permits, clock });
  addInferRoute(app, {
    repository,
    executor,
    coalescer: sharedRuns,
    lifecycle,
    concurrencyLimiter: permits,
    clock,
    maxBodyBytes,
    maxRows,
    onOutcome,
  });
  return app;
}

/** Undefined for what is no inference: that is not traced. */
function traceEndOf(c: RegionContext): Parameters<RequestTrace["finish"]>[1] {
  if (c.get("action") !== "infer") return undefined;
  const { status } = c.res;
  const error = c.error && asEdgeTierError(c.error).code;
  const facts = {
    "http.request.method": "POST",
    "http.route": TRACE_ROUTE,
    "http.response.status_code": status,
    "edgetier.request_id": c.get("requestId"),
  };
  return {
    name: `POST ${TRACE_ROUTE}`,
    attributes: { ...facts, ...(error && { "error.type": error }) },
    error: status >= 500 ? (error ?? String(status)) : undefined,
  };
}
