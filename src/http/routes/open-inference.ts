// Open Inference routes: metadata, readiness and infer of the v2 protocol, answered by the edge or forwarded to a region.

import { type Context, Hono } from "hono";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { coreErrors } from "../../core/common-errors.ts";
import { VERSION } from "../../core/version.ts";
import { toMessageHeaders, readJsonLength } from "../../protocol/open-inference-http.ts";
import {
  decodeInferRequest,
  decodeRawInferRequest,
  encodeInferResponse,
  type InferRequest,
  JSON_LENGTH_HEADER,
  type ModelMetadata,
  type ServerMetadata,
  wantsBinaryOutput,
} from "../../protocol/open-inference.ts";
import { readRequestBody } from "../../protocol/read-request-body.ts";
import { validateRequestInputs } from "../../protocol/request-inputs.ts";
import {
  selectOutputs,
  readTimeoutMs,
  readSelectedOutputs,
  rejectUnsupportedParameters,
} from "../../protocol/request-options.ts";
import { regionErrors } from "../../region/errors.ts";
import type { ModelRef } from "../../registry/model-ref.ts";
import type { EdgePlan } from "../../serving/edge-plan.ts";
import type { ModelCatalog } from "../../serving/model-catalog.ts";
import type {
  OpenInferenceModel,
  OpenInferenceModels,
} from "../../serving/open-inference-models.ts";
import { parseRequestedModel } from "../access/requested-model.ts";
import type { AppEnv } from "../app-env.ts";
import { MAX_DEADLINE_MS, parseDeadlineMs } from "../deadline-header.ts";

export interface OpenInferenceDependencies {
  readonly catalog: Pick<ModelCatalog, "listVersions">;
  readonly models: OpenInferenceModels;
  /** Maximum size of a decompressed request body, in bytes. */
  readonly maxBodyBytes: number;
}

const SERVER: ServerMetadata = {
  name: "edgetier",
  version: VERSION,
  extensions: ["binary_tensor_data", "classification", "parameters"],
};

/** Paths of Triton's extensions that only a region server supports. */
const REGION_ONLY_PATHS = [
  "/v2/repository/*",
  "/v2/models/stats",
  "/v2/models/:model/:action{stats|config|generate|generate_stream|trace/setting}",
  "/v2/models/:model/versions/:version/:action{stats|config|generate|generate_stream}",
  "/v2/trace/*",
  "/v2/logging",
  "/v2/systemsharedmemory/*",
  "/v2/cudasharedmemory/*",
];

export function openInferenceRoutes({
  catalog,
  models,
  maxBodyBytes,
}: OpenInferenceDependencies): Hono<AppEnv> {
  const routes = new Hono<AppEnv>();
  routes.on("ALL", REGION_ONLY_PATHS, (c) => {
    throw coreErrors.unsupported(
      `${c.req.path} at the edge`,
      "Send the request to the region server, or use GET /v1/models to list the models of this edge.",
    );
  });
  routes.on("GET", ["/v2", "/v2/"], (c) => c.json(SERVER));

  routes.on("GET", modelPaths("/ready"), async (c) => {
    const ref = parsePathModelRef(c);
    const model = await models.resolve(ref, c.get("context"));
    if (!(await model.isReady())) throw regionErrors.modelNotReady(ref.model);
    return c.body(null, 200);
  });

  routes.on("GET", modelPaths(""), async (c) => {
    const { manifest, inputs, outputs } = await models.resolve(
      parsePathModelRef(c),
      c.get("context"),
    );
    const versions = await catalog.listVersions(manifest.model);
    return c.json({
      name: manifest.model,
      versions: versions.map(String),
      platform: "onnxruntime_onnx",
      inputs,
      outputs,
    } satisfies ModelMetadata);
  });

  routes.on("POST", modelPaths("/infer"), async (c) => {
    const model = await models.resolveForRequest(parsePathModelRef(c), c.get("context"));
    return await infer(c, model, maxBodyBytes);
  });

  return routes;
}

async function infer(
  c: Context<AppEnv>,
  model: OpenInferenceModel,
  maxBodyBytes: number,
): Promise<Response> {
  const deadlineMs = parseDeadlineMs(c.req);
  const jsonBytes = readJsonLength(c.req.raw.headers);
  const body = await readRequestBody(c.req.raw, maxBodyBytes);
  const name = model.manifest.model;
  const request =
    jsonBytes === 0
      ? decodeRawInferRequest(body, model.inputs, name)
      : decodeInferRequest(body, jsonBytes, name);
  rejectUnsupportedParameters(request);
  const deadline = model.startDeadline(
    minDeadlineMs(deadlineMs, readTimeoutMs(request)),
    c.get("context"),
  );
  try {
    const plan = planRequest(model, request);
    const response =
      plan === undefined ? undefined : await inferAtEdge(c, model, request, plan, deadline);
    return response ?? (await forwardToRegion(c, model, body, deadline));
  } finally {
    deadline.dispose();
  }
}

type Deadline = ReturnType<OpenInferenceModel["startDeadline"]>;

function planRequest(
  model: OpenInferenceModel,
  { inputs, outputs, parameters }: InferRequest,
): EdgePlan | undefined {
  const tier = parameters?.["tier"];
  return model.plan({
    inputs,
    tier: tier === undefined ? undefined : String(tier),
    outputs: outputs?.map(({ name }) => name),
  });
}

/** @returns undefined if the edge fails and the region can answer */
async function inferAtEdge(
  c: Context<AppEnv>,
  model: OpenInferenceModel,
  request: InferRequest,
  plan: EdgePlan,
  deadline: Deadline,
): Promise<Response | undefined> {
  const context = c.get("context");
  const { model: name, version } = model.manifest;
  if (plan.inputs !== undefined) validateRequestInputs(name, plan.inputs, request.inputs);
  const selected = readSelectedOutputs(request, plan.outputs, name);
  const result = await plan.execute(context, deadline);
  if (result === undefined) return undefined;
  const needsLabels = selected?.some(({ topClassCount }) => topClassCount !== undefined) === true;
  const outputs = selectOutputs(
    result.outputs,
    selected,
    needsLabels ? await model.loadLabels(context, deadline) : undefined,
  );
  const tier = result.tiers.join(", ");
  const response = {
    model: name,
    version: String(version),
    id: request.id,
    parameters: { tier, ...(result.degraded ? { degraded: true } : {}) },
    outputs,
  };
  const message = encodeInferResponse(response, (output) => wantsBinaryOutput(request, output));
  c.header("x-edgetier-tier", tier);
  return c.body(message.body, 200, toMessageHeaders(message));
}

/** @param body the decompressed body, otherwise unchanged */
async function forwardToRegion(
  c: Context<AppEnv>,
  model: OpenInferenceModel,
  body: Uint8Array<ArrayBuffer>,
  deadline: Deadline,
): Promise<Response> {
  const headers = ["content-type", JSON_LENGTH_HEADER].flatMap((name): [string, string][] => {
    const value = c.req.header(name);
    return value === undefined ? [] : [[name, value]];
  });
  const answer = await model.forward(
    { body, headers: Object.fromEntries(headers) },
    c.get("context"),
    deadline,
  );
  return c.newResponse(
    answer.body,
    answer.status as ContentfulStatusCode,
    Object.fromEntries(answer.headers),
  );
}

const modelPaths = (suffix: string) => [
  `/v2/models/:model${suffix}`,
  `/v2/models/:model/versions/:version${suffix}`,
];

/** Resolves to the alias `stable` if the path names no version. @throws invalid_model_name, model_not_allowed */
function parsePathModelRef(c: Context<AppEnv>): ModelRef {
  const model = c.req.param("model") ?? "";
  const version = c.req.param("version");
  return parseRequestedModel(c, version === undefined ? model : `${model}@${version}`);
}

function minDeadlineMs(...deadlinesMs: readonly (number | undefined)[]): number | undefined {
  const definedMs = deadlinesMs.filter((deadlineMs) => deadlineMs !== undefined);
  return definedMs.length === 0 ? undefined : Math.min(...definedMs, MAX_DEADLINE_MS);
}
