// The region's HTTP interface: the Open Inference Protocol v2 with Triton's statuses, as a Hono app.

import { Hono, type Context } from "hono";
import { requestId, type RequestIdVariables } from "hono/request-id";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { systemClock, type Clock } from "../../core/clock.ts";
import { asEdgeTierError, errors, shown, type EdgeTierError } from "../../core/errors.ts";
import type { TensorSpec } from "../../core/tensor.ts";
import { decodeInferRequest, decodeRawInferRequest, encodeInferResponse, JSON_LENGTH_HEADER, type ModelMetadata, readIndexRequest, type ServerMetadata, wantsBinary } from "../../protocol/open-inference.ts";
import { parseModelRef, type ModelRef } from "../../registry/model-ref.ts";
import { TASK_INPUT_NAME } from "../../tasks/task.ts";
import type { Executor } from "./executor.ts";
import { infer } from "./infer.ts";
import type { Lifecycle } from "./lifecycle.ts";
import type { ModelRepository } from "./model-repository.ts";
import { readBody } from "./read-body.ts";

export interface RegionAppDependencies {
  readonly repository: ModelRepository;
  readonly executor: Executor;
  readonly lifecycle: Lifecycle;
  /** Of EdgeTier, for the server's metadata. */
  readonly version: string;
  readonly clock?: Clock;
  /** Of a request body, decompressed. */
  readonly maxBodyBytes?: number;
  /** Inputs of the task's own kind in one request. */
  readonly maxRows?: number;
  /** Called with every failure that is not the client's. */
  readonly onFailure?: (failure: RegionFailure) => void;
}

export interface RegionFailure {
  readonly event: "request_failed";
  readonly requestId: string;
  readonly traceparent: string | undefined;
  readonly error: unknown;
}

type Env = { Variables: RequestIdVariables };

/** What a region tier takes by default: the task's own inputs, one element each. */
const TASK_INPUTS: readonly TensorSpec[] = [{ name: TASK_INPUT_NAME, datatype: "BYTES", shape: [-1] }];

/** Of a body that holds nothing but an option or two. */
const MAX_CONTROL_BYTES = 65_536;

/** What curl and HTTP clients put on a JSON body when they are told nothing; Triton asks for no type at all. */
const JSON_MEDIA_TYPES = ["application/json", "application/octet-stream", "application/x-www-form-urlencoded", "text/plain"];

export function createRegionApp(dependencies: RegionAppDependencies): Hono<Env> {
  const { repository, executor, lifecycle, version, clock = systemClock, maxBodyBytes = 8_388_608, maxRows = 256, onFailure = () => {} } = dependencies;
  const app = new Hono<Env>();

  app.use(requestId());
  app.use(async function closeWhenLeaving(c, next) {
    await next();
    // So that no client sends its next request into a connection that is about to close.
    if (lifecycle.state === "leaving" || lifecycle.state === "draining") c.header("connection", "close");
  });
  app.onError((thrown, c) => {
    const error = asEdgeTierError(thrown);
    if (error.status >= 500) onFailure({ event: "request_failed", requestId: c.get("requestId"), traceparent: c.req.header("traceparent"), error: error.cause ?? error });
    if (error.retryAfterSeconds !== undefined) c.header("retry-after", String(error.retryAfterSeconds));
    return c.json({ error: error.message }, tritonStatus(error));
  });
  app.notFound((c) => {
    throw errors.routeNotFound(c.req.path);
  });

  const route = (method: "GET" | "POST", paths: readonly string[], handler: (c: Context<Env>) => Promise<Response>): void => {
    app.on(method, [...paths], handler);
    app.on("ALL", [...paths], (c) => {
      c.header("allow", method);
      throw errors.methodNotAllowed(c.req.method, [method]);
    });
  };

  route("GET", ["/v2", "/v2/"], async (c) => c.json({ name: "edgetier-region", version, extensions: ["binary_tensor_data", "classification", "model_repository", "parameters"] } satisfies ServerMetadata));
  route("GET", ["/v2/health/live"], async (c) => c.body(null, 200));
  route("GET", ["/v2/health/ready"], async (c) => c.body(null, lifecycle.state === "serving" ? 200 : 400));

  route("POST", ["/v2/repository/index"], async (c) => {
    const { ready = false } = readIndexRequest(await readBody(c.req.raw, MAX_CONTROL_BYTES));
    const entries = await repository.index();
    return c.json(ready ? entries.filter(({ state }) => state === "READY") : entries);
  });
  route("POST", ["/v2/repository/models/:model/load"], async (c) => {
    await repository.load(nameOf(c));
    return c.json({});
  });
  route("POST", ["/v2/repository/models/:model/unload"], async (c) => {
    await repository.unload(nameOf(c));
    return c.json({});
  });

  route("GET", modelPaths("/ready"), async (c) => {
    const ref = refOf(c);
    if (!(await repository.isReady(ref))) throw errors.modelNotReady(ref.model);
    return c.body(null, 200);
  });

  route("GET", modelPaths(""), async (c) => {
    const { manifest, versions } = await repository.describe(refOf(c));
    const tier = manifest.tiers.findLast((one) => one.place === "region");
    if (tier === undefined) throw errors.noRegionTier(manifest.model, manifest.version);
    const metadata: ModelMetadata = {
      name: manifest.model,
      versions: versions.map(String),
      platform: "onnxruntime_onnx",
      inputs: manifest.task === "tensor" ? tier.inputs : TASK_INPUTS,
      outputs: tier.outputs,
    };
    return c.json(metadata);
  });

  route("POST", modelPaths("/infer"), (c) =>
    lifecycle.track(async () => {
      const receivedAtMs = clock.now();
      const ref = refOf(c);
      const length = jsonLength(c);
      const bytes = await readBody(c.req.raw, maxBodyBytes);
      const request = length === 0 ? decodeRawInferRequest(bytes, TASK_INPUTS) : decodeInferRequest(bytes, length);
      const response = await repository.use(ref, (model) => infer(model, request, { executor, maxRows, receivedAtMs, signal: c.req.raw.signal }));
      const { body, jsonBytes } = encodeInferResponse(response, (output) => wantsBinary(request, output));
      if (jsonBytes !== undefined) c.header(JSON_LENGTH_HEADER, String(jsonBytes));
      return c.body(body, 200, { "content-type": jsonBytes === undefined ? "application/json" : "application/octet-stream" });
    }),
  );

  return app;
}

const modelPaths = (suffix: string) => [`/v2/models/:model${suffix}`, `/v2/models/:model/versions/:version${suffix}`];

/** @throws invalid_model_name */
function nameOf(c: Context): string {
  return parseModelRef(c.req.param("model") ?? "").model;
}

/** The alias `stable` where the path names no version. @throws invalid_model_name */
function refOf(c: Context): ModelRef {
  const model = c.req.param("model") ?? "";
  const version = c.req.param("version");
  return parseModelRef(version === undefined ? model : `${model}@${version}`);
}

/**
 * @returns how much of the body is JSON; undefined for all of it
 * @throws invalid_request for a length that is none, unsupported_media_type for what can be no JSON
 */
function jsonLength(c: Context): number | undefined {
  const length = c.req.header(JSON_LENGTH_HEADER);
  if (length !== undefined) {
    if (!/^\d{1,15}$/.test(length)) throw errors.invalidRequest([`${JSON_LENGTH_HEADER} ${shown(length)} is not a whole number from 0`]);
    return Number(length);
  }
  const mediaType = c.req.header("content-type")?.split(";")[0]?.trim().toLowerCase();
  if (mediaType === undefined || mediaType === "" || mediaType.endsWith("+json") || JSON_MEDIA_TYPES.includes(mediaType)) return undefined;
  throw errors.unsupportedMediaType(mediaType, JSON_MEDIA_TYPES);
}

/** Triton answers 400 for a model it does not know, and 404 for a version of one that it does. */
function tritonStatus(error: EdgeTierError): ContentfulStatusCode {
  return error.code === "model_not_found" ? 400 : (error.status as ContentfulStatusCode);
}
