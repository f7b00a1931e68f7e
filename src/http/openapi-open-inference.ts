// The /v2 routes in the OpenAPI document: what the Open Inference Protocol says in full, in short.

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

const VERSIONED_PATH_NOTE = "As well under `/v2/models/{model}/versions/{version}`.";

export function buildOpenInferencePaths(): PathsObject {
  const options = z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])).optional();
  const spec = z
    .object({ name: z.string(), datatype: z.enum(DATATYPES), shape: z.array(z.int()) })
    .meta({ id: "TensorSpec" });
  const tensor = spec
    .extend({
      parameters: options,
      data: z.array(z.unknown()).optional().meta({
        description: "Row-major; or `parameters.binary_data_size`, and the bytes after the JSON.",
      }),
    })
    .meta({ id: "Tensor" });
  const request = z
    .object({
      id: z.string().optional(),
      parameters: options.meta({
        description:
          "`tier`: the one tier to ask; `timeout` in microseconds; `binary_data_output`.",
      }),
      inputs: z.array(tensor).meta({
        description:
          "One BYTES tensor `input`, an element for each text or image file; or a graph's own tensors.",
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

  const model = describeParameters("path", z.object({ model: z.string() }));
  const refusals = {
    400: describeResponse("No such model, or a request that is not valid.", error),
    404: describeResponse("No such version.", error),
  };
  const unavailable = {
    ...accessErrorResponses((description) => describeResponse(description, error)),
    503: describeResponse(
      "The store, or every tier, is out of reach, or it took too long; see `retry-after`.",
      error,
    ),
  };
  const yes = { 200: describeEmptyResponse("Yes.") };
  const ofModel = (
    operationId: string,
    summary: string,
    responses: OperationObject["responses"],
  ): { readonly get: OperationObject } => ({
    get: {
      operationId,
      summary,
      description: VERSIONED_PATH_NOTE,
      parameters: model,
      responses: { ...responses, ...refusals, ...unavailable },
    },
  });

  return {
    "/v2": {
      get: {
        operationId: "server",
        summary: "Name, version and extensions of the server, by the Open Inference Protocol v2",
        responses: { 200: describeResponse("The server.", server), ...unavailable },
      },
    },
    "/v2/health/live": {
      get: { operationId: "live", summary: "Is the Worker running?", responses: yes },
    },
    "/v2/health/ready": {
      get: {
        operationId: "ready",
        summary: "Can it read the model store?",
        responses: { ...yes, 400: describeResponse("No.", error) },
      },
    },
    "/v2/models/{model}": ofModel("modelMetadata", "Inputs and outputs of a model", {
      200: describeResponse("The model.", metadata),
    }),
    "/v2/models/{model}/ready": ofModel(
      "modelReady",
      "Does the edge, or else the region, answer for the model at once?",
      yes,
    ),
    "/v2/models/{model}/infer": {
      post: {
        operationId: "infer",
        summary: "Tensors in, tensors out",
        description: `What the edge cannot run goes through to the region. The extensions for binary tensors and for classification are served. ${VERSIONED_PATH_NOTE}`,
        parameters: model,
        requestBody: describeRequestBody({
          "application/json": request,
          "application/octet-stream": z.string(),
        }),
        responses: {
          200: describeResponse("The outputs.", response),
          ...refusals,
          413: describeResponse(
            "The body, an input, or the number of inputs is over its limit.",
            error,
          ),
          ...unavailable,
        },
      },
    },
  };
}
