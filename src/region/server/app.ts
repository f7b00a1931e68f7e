// HTTP interface of the region: Open Inference Protocol v2 with Triton's extensions and statuses, as a Hono app.

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
import { protocolErrors } from "../../protocol/errors.ts";
import { toTritonStatus } from "../../protocol/open-inference-http.ts";
import type { ConcurrencyLimiter } from "./batching/concurrency-limiter.ts";
import { createPreciseClock } from "./batching/precise-clock.ts";
import type { Executor } from "./executor.ts";
import type { InferOutcome } from "./infer.ts";
import type { Lifecycle } from "./lifecycle.ts";
import { addLoadReportHeader } from "./load-report.ts";
import type { ModelRepository } from "./model-repository.ts";
import { EMPTY_OPERATOR_CONFIG, type OperatorConfig } from "./operator-config.ts";
import { type RequestCoalescer, noCoalescing } from "./request-coalescing.ts";
import { addInferRoute } from "./routes/infer.ts";
import { addModelRoutes } from "./routes/models.ts";
import { addRepositoryRoutes } from "./routes/repository.ts";
import type { RouteAction, RegionEnv, RegionContext } from "./routes/route-helpers.ts";
import { addServerRoutes, type MetricsExporter } from "./routes/server.ts";
import { createInferenceStatistics, type InferenceStatistics } from "./statistics.ts";

export interface RegionAppDependencies {
  readonly repository: ModelRepository;
  readonly executor: Executor;
  readonly lifecycle: Lifecycle;
  /** EdgeTier's version, for the server metadata. */
  readonly version: string;
  readonly clock?: Clock;
  /** Limits concurrent infer requests. Without it, their number is unbounded until the executor's queues. */
  readonly concurrencyLimiter?: ConcurrencyLimiter;
  /** Shares runs among identical requests. Without it, each request is computed separately. */
  readonly coalescer?: RequestCoalescer;
  /** Without it, every client is trusted. */
  readonly authentication?: MiddlewareHandler<RegionEnv> | undefined;
  /** Source of `/v2/models/stats`, fed by the executor's and the repository's events and by `onOutcome`. */
  readonly statistics?: InferenceStatistics;
  /** Source of `/metrics`; without it, the route does not exist. */
  readonly metrics?: MetricsExporter;
  /** Configuration that the repository was created with; `/v2/models/{model}/config` reports it. */
  readonly operatorConfig?: OperatorConfig;
  /** Maximum size of a request body after decompression. */
  readonly maxBodyBytes?: number;
  /** Maximum number of task inputs in one request. */
  readonly maxRows?: number;
  /** Called once for every infer request that reached a model with valid inputs. */
  readonly onOutcome?: (outcome: InferOutcome) => void;
  /** Traces infer requests. Without it, their trace context only goes into the log. */
  readonly tracer?: Tracer;
  /** Called once for every request. */
  readonly onResponse?: (response: RegionResponseEvent) => void;
  /** Called for every failure that the client did not cause. */
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

/** Route in traces, with or without a version. */
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
    concurrencyLimiter = unlimited,
    coalescer = noCoalescing,
    statistics = createInferenceStatistics(clock),
    operatorConfig = EMPTY_OPERATOR_CONFIG,
    authentication,
    maxBodyBytes = 8_388_608,
    maxRows = 256,
    onOutcome = () => {},
  } = dependencies;
  const app = new Hono<RegionEnv>();

  app.use(requestId());
  app.use(createRequestObserver(dependencies, clock));
  if (authentication !== undefined) app.use(authentication);
  addErrorResponses(app, dependencies.onRequestFailed);

  addServerRoutes(app, { lifecycle, version, metrics });
  addRepositoryRoutes(app, repository);
  addModelRoutes(app, { repository, statistics, operatorConfig });
  addLoadReportHeader(app, { lifecycle, executor, concurrencyLimiter, clock });
  addInferRoute(app, {
    repository,
    executor,
    coalescer,
    lifecycle,
    concurrencyLimiter,
    clock,
    maxBodyBytes,
    maxRows,
    onOutcome,
  });
  return app;
}

/** Traces each request and reports its response. */
function createRequestObserver(
  { lifecycle, tracer = passthroughTracer, onResponse = () => {} }: RegionAppDependencies,
  clock: Clock,
): MiddlewareHandler<RegionEnv> {
  return async function observeRequest(c, next) {
    const startedAtMs = clock.now();
    c.set("action", "other");
    const trace = tracer.startRequest((name) => c.req.header(name));
    c.set("span", trace.span);
    await next();
    trace.finish(ignoreCompletion, describeTraceEnd(c));
    // A client must not send its next request on a connection that is about to close.
    if (lifecycle.state === "leaving" || lifecycle.state === "draining")
      c.header("connection", "close");
    onResponse({
      action: c.get("action"),
      status: c.res.status,
      durationMs: clock.now() - startedAtMs,
      requestId: c.get("requestId"),
      traceId: c.get("span").traceId,
    });
  };
}

function addErrorResponses(
  app: Hono<RegionEnv>,
  onRequestFailed: RegionAppDependencies["onRequestFailed"] = () => {},
): void {
  const reject = (c: RegionContext, error: EdgeTierError): Response => {
    const isServerFailure = error.status >= 500 && error.status !== 501;
    if (isServerFailure)
      onRequestFailed({
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
  app.onError((thrown, c) => reject(c, asEdgeTierError(thrown)));
  app.notFound((c) => reject(c, protocolErrors.routeNotFound(c.req.path)));
}

/** @returns undefined for requests other than inference, which are not traced */
function describeTraceEnd(c: RegionContext): Parameters<RequestTrace["finish"]>[1] {
  if (c.get("action") !== "infer") return undefined;
  const { status } = c.res;
  const errorCode = c.error && asEdgeTierError(c.error).code;
  const attributes = {
    "http.request.method": "POST",
    "http.route": TRACE_ROUTE,
    "http.response.status_code": status,
    "edgetier.request_id": c.get("requestId"),
  };
  return {
    name: `POST ${TRACE_ROUTE}`,
    attributes: { ...attributes, ...(errorCode && { "error.type": errorCode }) },
    error: status >= 500 ? (errorCode ?? String(status)) : undefined,
  };
}
