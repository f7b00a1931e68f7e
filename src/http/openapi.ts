// The OpenAPI 3.1 document, made from the wire schemas of src/protocol. (QUERY has no place in OpenAPI 3.1; the
// description of POST names it.)

import { OpenAPIHono, z } from "@hono/zod-openapi";
import { modelDetail, modelList } from "../protocol/models.ts";
import { predictBody, predictQuery, predictResponse } from "../protocol/predict.ts";
import { PROBLEM_MEDIA_TYPE, problemSchema } from "../protocol/problem.ts";

export type OpenApiDocument = ReturnType<OpenAPIHono["getOpenAPI31Document"]>;

const json = <Schema extends z.ZodType>(description: string, schema: Schema) => ({ description, content: { "application/json": { schema } } });
const problem = (description: string) => ({ description, content: { [PROBLEM_MEDIA_TYPE]: { schema: problemSchema } } });

const badRequests = {
  400: problem("The request is not valid."),
  404: problem("No such model, version or alias."),
};
const unavailable = { 503: problem("The model store or every tier is out of reach; see `retry-after`.") };

const modelPath = z.object({ model: z.string().openapi({ description: "`name`, `name@version` or `name@alias`; the default alias is `stable`.", example: "intent" }) });
const predictHeaders = z.object({
  "x-deadline-ms": z.coerce.number().int().optional().openapi({ description: "When the answer is wanted, in milliseconds from now; the model's own deadline otherwise." }),
  "x-request-id": z.string().optional(),
  traceparent: z.string().optional(),
});
const predictAnswers = {
  200: json("The answers, in the order of the inputs.", predictResponse),
  ...badRequests,
  413: problem("The body, an input, or the number of inputs is over its limit."),
  415: problem("The media type is not taken."),
  ...unavailable,
  504: problem("No tier could answer within the deadline."),
};

export function openApiDocument(): OpenApiDocument {
  const api = new OpenAPIHono();
  const registry = api.openAPIRegistry;
  registry.registerPath({
    method: "post",
    path: "/v1/models/{model}/predict",
    operationId: "predict",
    summary: "Predict",
    description: "The method QUERY takes the same JSON body, and is safe to repeat and to cache.",
    request: {
      params: modelPath,
      headers: predictHeaders,
      body: { required: true, content: { "application/json": { schema: predictBody }, "text/plain": { schema: z.string() } } },
    },
    responses: predictAnswers,
  });
  registry.registerPath({
    method: "get",
    path: "/v1/models/{model}/predict",
    operationId: "predictOne",
    summary: "Predict one text, with an ETag",
    request: { params: modelPath, headers: predictHeaders, query: predictQuery },
    responses: { ...predictAnswers, 304: { description: "The client has this answer already." } },
  });
  registry.registerPath({
    method: "get",
    path: "/v1/models",
    operationId: "listModels",
    summary: "What is served",
    responses: { 200: json("All models.", modelList), ...unavailable },
  });
  registry.registerPath({
    method: "get",
    path: "/v1/models/{model}",
    operationId: "getModel",
    summary: "Versions, aliases, tiers, thresholds and measured figures of a model",
    request: { params: modelPath },
    responses: { 200: json("The model.", modelDetail), ...badRequests, ...unavailable },
  });
  for (const [path, summary] of [["/v2/health/live", "Is the Worker running?"], ["/v2/health/ready", "Can it read the model store?"]] as const) {
    registry.registerPath({
      method: "get",
      path,
      operationId: path.endsWith("live") ? "live" : "ready",
      summary,
      responses: { 200: { description: "Yes." }, 400: { description: "No." } },
    });
  }
  return api.getOpenAPI31Document({
    openapi: "3.1.0",
    info: { title: "EdgeTier", version: "1", description: "Predictions with a bounded latency, tier by tier.", license: { name: "MIT" } },
    servers: [{ url: "/" }],
  });
}
