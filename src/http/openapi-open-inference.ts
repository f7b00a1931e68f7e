// OpenAPI paths: summarizes the /v2 routes, which the Open Inference Protocol specifies in full.

import * as z from "zod";
import { DATATYPES } from "../core/tensor.ts";
import {
  accessErrorResponses,
  describeRequestBody,
  describeResponse,
  describeEmptyResponse,
  type OperationObject,
  describeParameters,
  type PathsObject,
} from "./openapi-builders.ts";

const VERSIONED_PATH_NOTE = "Also available under `/v2/models/{model}/versions/{version}`.";

type Schemas = ReturnType<typeof createSchemas>;

/** A function, so that the schemas are created only when the document is built. */
function createSchemas() {
  const options = z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])).optional();
  const spec = z
    .object({ name: z.string(), datatype: z.enum(DATATYPES), shape: z.array(z.int()) })
    .meta({ id: "TensorSpec" });
  const tensor = spec
    .extend({
      parameters: options,
      data: z.array(z.unknown()).optional().meta({
        description:
          "Elements in row-major order. A binary tensor has `parameters.binary_data_size` instead, with its bytes after the JSON.",
      }),
    })
    .meta({ id: "Tensor" });
  const request = z
    .object({
      id: z.string().optional(),
      parameters: options.meta({
        description:
          "`tier`: id of the only tier to run; `timeout`: in microseconds; `binary_data_output`.",
      }),
      inputs: z.array(tensor).meta({
        description:
          "One BYTES tensor `input` with one element per text or image file, or the tensors of a graph.",
      }),
      outputs: z
        .array(z.object({ name: z.string(), parameters: options }).meta({ id: "RequestedOutput" }))
        .optional(),
    })
    .meta({ id: "InferRequest" });
  const response = z
    .object({
      model_name: z.string(),
      model_version: z.string(),
      id: z.string().optional(),
      parameters: options,
      outputs: z.array(tensor),
    })
    .meta({ id: "InferResponse" });
  const metadata = z
    .object({
      name: z.string(),
      versions: z.array(z.string()),
      platform: z.string(),
      inputs: z.array(spec),
      outputs: z.array(spec),
    })
    .meta({ id: "ModelMetadata" });
  const server = z
    .object({ name: z.string(), version: z.string(), extensions: z.array(z.string()) })
    .meta({ id: "ServerMetadata" });
  const error = z.object({ error: z.string() }).meta({ id: "InferError" });
  return { request, response, metadata, server, error };
}

type Responses = OperationObject["responses"];

const modelPathParameters = () => describeParameters("path", z.object({ model: z.string() }));
const modelErrorResponses = ({ error }: Schemas): Responses => ({
  400: describeResponse("The model does not exist, or the request is invalid.", error),
  404: describeResponse("The version does not exist.", error),
});
const availabilityResponses = ({ error }: Schemas): Responses => ({
  ...accessErrorResponses((description) => describeResponse(description, error)),
  503: describeResponse(
    "The store or every tier is unavailable, or the deadline has passed; see `retry-after`.",
    error,
  ),
});

export function buildOpenInferencePaths(): PathsObject {
  const schemas = createSchemas();
  const { error } = schemas;
  const ok = { 200: describeEmptyResponse("Yes.") };
  const describeModelRoute = (
    operationId: string,
    summary: string,
    responses: Responses,
  ): { readonly get: OperationObject } => ({
    get: {
      operationId,
      summary,
      description: VERSIONED_PATH_NOTE,
      parameters: modelPathParameters(),
      responses: {
        ...responses,
        ...modelErrorResponses(schemas),
        ...availabilityResponses(schemas),
      },
    },
  });

  return {
    "/v2": {
      get: {
        operationId: "server",
        summary: "Name, version and extensions of the server (Open Inference Protocol v2)",
        responses: {
          200: describeResponse("The server.", schemas.server),
          ...availabilityResponses(schemas),
        },
      },
    },
    "/v2/health/live": {
      get: { operationId: "live", summary: "Is the Worker running?", responses: ok },
    },
    "/v2/health/ready": {
      get: {
        operationId: "ready",
        summary: "Can the Worker read the model store?",
        responses: { ...ok, 400: describeResponse("No.", error) },
      },
    },
    "/v2/models/{model}": describeModelRoute("modelMetadata", "Inputs and outputs of a model", {
      200: describeResponse("The model.", schemas.metadata),
    }),
    "/v2/models/{model}/ready": describeModelRoute(
      "modelReady",
      "Is the model ready at the edge or in the region?",
      ok,
    ),
    "/v2/models/{model}/infer": { post: describeInfer(schemas) },
  };
}

function describeInfer(schemas: Schemas): OperationObject {
  return {
    operationId: "infer",
    summary: "Run a model on tensors",
    description: `The edge forwards requests that it cannot run to the region. The binary tensor data and classification extensions are supported. ${VERSIONED_PATH_NOTE}`,
    parameters: modelPathParameters(),
    requestBody: describeRequestBody({
      "application/json": schemas.request,
      "application/octet-stream": z.string(),
    }),
    responses: {
      200: describeResponse("The outputs.", schemas.response),
      ...modelErrorResponses(schemas),
      413: describeResponse(
        "The body, an input or the number of inputs exceeds its limit.",
        schemas.error,
      ),
      ...availabilityResponses(schemas),
    },
  };
}
