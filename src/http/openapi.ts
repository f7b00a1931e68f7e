// OpenAPI document: describes the API in OpenAPI 3.1, from the wire schemas of src/protocol. OpenAPI 3.1 has no QUERY
// method, so the description of POST names it.

import * as z from "zod";
import {
  EMBEDDINGS_PATH,
  embeddingsRequestSchema,
  embeddingsProblemSchema,
  embeddingsResponseSchema,
} from "../protocol/embeddings.ts";
import { modelDetailSchema, modelListSchema } from "../protocol/model-detail.ts";
import { modelReportSchema } from "../protocol/model-report.ts";
import {
  predictRequestSchema,
  predictParametersQuerySchema,
  predictQuerySchema,
  predictResponseSchema,
} from "../protocol/predict.ts";
import { PROBLEM_MEDIA_TYPE, problemDetailsSchema } from "../protocol/problem-details.ts";
import { regionListSchema } from "../protocol/region-list.ts";
import {
  accessErrorResponses,
  describeRequestBody,
  buildComponentSchemas,
  describeResponse,
  describeEmptyResponse,
  describeParameters,
  type PathsObject,
} from "./openapi-builders.ts";
import { metricsPaths } from "./openapi-metrics.ts";
import { buildOpenInferencePaths } from "./openapi-open-inference.ts";

export interface OpenApiDocument {
  readonly openapi: "3.1.0";
  readonly info: {
    readonly title: string;
    readonly version: string;
    readonly description: string;
    readonly license: { readonly name: string; readonly identifier: string };
  };
  readonly servers: readonly { readonly url: string }[];
  readonly paths: PathsObject;
  /** A credential is optional in the document; each deployment decides whether it is required. */
  readonly security: readonly Readonly<Record<string, readonly string[]>>[];
  readonly components: {
    readonly schemas: Readonly<Record<string, object>>;
    readonly securitySchemes: Readonly<Record<string, object>>;
  };
}

const problemResponse = (description: string) =>
  describeResponse(description, problemDetailsSchema, PROBLEM_MEDIA_TYPE);

const clientErrorResponses = {
  400: problemResponse("The request is invalid."),
  404: problemResponse("The model, version or alias does not exist."),
};
const availabilityResponses = {
  ...accessErrorResponses(problemResponse),
  503: problemResponse("The model store or every tier is unavailable; see `retry-after`."),
};

const modelPathParameters = describeParameters(
  "path",
  z.object({
    model: z.string().meta({
      description: "`name`, `name@version` or `name@alias`; the default alias is `stable`.",
      examples: ["intent"],
    }),
  }),
);
const predictHeaderParameters = describeParameters(
  "header",
  z.object({
    "x-deadline-ms": z.int().optional().meta({
      description: "Deadline in milliseconds from now; the default is the model's own deadline.",
    }),
    "cache-control": z
      .string()
      .optional()
      .meta({
        description:
          "`no-cache` or `max-age=0` computes and stores a new result. `no-store` bypasses the caches. `only-if-cached` fails with 504 instead of computing.",
        examples: ["no-cache"],
      }),
    "x-request-id": z.string().optional(),
    traceparent: z.string().optional(),
  }),
);
const predictResponses = {
  200: describeResponse("The predictions, in the order of the inputs.", predictResponseSchema),
  ...clientErrorResponses,
  413: problemResponse("The body, an input or the number of inputs exceeds its limit."),
  415: problemResponse("The model does not accept the media type or this kind of image."),
  ...availabilityResponses,
  504: problemResponse(
    "No tier answered within the deadline, or the result is not cached and must not be computed.",
  ),
};

const binaryFileSchema = z.string().meta({ format: "binary" });
const predictionPaths: PathsObject = {
  "/v1/models/{model}/predict": {
    post: {
      operationId: "predict",
      summary: "Predict",
      description:
        "A body that is not JSON is one input, with its parameters in the query. The method QUERY accepts the same bodies; its requests can be retried and cached.",
      parameters: [
        ...modelPathParameters,
        ...predictHeaderParameters,
        ...describeParameters("query", predictParametersQuerySchema),
      ],
      requestBody: describeRequestBody({
        "application/json": predictRequestSchema,
        "text/plain": z.string(),
        "image/jpeg": binaryFileSchema,
        "image/png": binaryFileSchema,
      }),
      responses: predictResponses,
    },
    get: {
      operationId: "predictOne",
      summary: "Predict one text, with an ETag",
      parameters: [
        ...modelPathParameters,
        ...predictHeaderParameters,
        ...describeParameters("query", predictQuerySchema),
      ],
      responses: {
        ...predictResponses,
        304: describeEmptyResponse("The client already has this response."),
      },
    },
  },
  "/v1/regions": {
    get: {
      operationId: "listRegions",
      summary: "Location, distance, latency and health of the regions",
      responses: {
        200: describeResponse("The regions, nearest first.", regionListSchema),
        ...accessErrorResponses(problemResponse),
      },
    },
  },
  "/v1/models": {
    get: {
      operationId: "listModels",
      summary: "List the served models",
      responses: {
        200: describeResponse("All models.", modelListSchema),
        ...availabilityResponses,
      },
    },
  },
  "/v1/models/{model}": {
    get: {
      operationId: "getModel",
      summary: "Versions, aliases, tiers, thresholds and figures of a model",
      parameters: modelPathParameters,
      responses: {
        200: describeResponse("The model.", modelDetailSchema),
        ...clientErrorResponses,
        ...availabilityResponses,
      },
    },
  },
  "/v1/models/{model}/report": {
    get: {
      operationId: "getReport",
      summary: "Calibration report of a model, with the effect of other thresholds",
      parameters: modelPathParameters,
      responses: {
        200: describeResponse("The report that was published with the version.", modelReportSchema),
        ...clientErrorResponses,
        ...availabilityResponses,
      },
    },
  },
};

const embeddingsProblemResponse = (description: string) =>
  describeResponse(description, embeddingsProblemSchema, PROBLEM_MEDIA_TYPE);
const embeddingsPaths: PathsObject = {
  [EMBEDDINGS_PATH]: {
    post: {
      operationId: "embed",
      summary: "Embed texts, in OpenAI's format",
      description:
        "OpenAI's clients work unchanged with this server's `/v1` as their base URL. The edge tier answers if the model has one, and otherwise the region tier.",
      parameters: predictHeaderParameters,
      requestBody: describeRequestBody({ "application/json": embeddingsRequestSchema }),
      responses: {
        200: describeResponse("One vector per input, in order.", embeddingsResponseSchema),
        400: embeddingsProblemResponse(
          "The request is invalid, or the model returns no embeddings.",
        ),
        404: embeddingsProblemResponse("The model, version or alias does not exist."),
        413: embeddingsProblemResponse(
          "The body, an input, or the number of inputs or tokens exceeds its limit.",
        ),
        415: embeddingsProblemResponse("The body is not JSON."),
        ...accessErrorResponses(embeddingsProblemResponse),
        503: embeddingsProblemResponse(
          "The model store or the tier is unavailable; see `retry-after`.",
        ),
        504: embeddingsProblemResponse("No tier answered within the deadline."),
      },
    },
  },
};

export function buildOpenApiDocument(): OpenApiDocument {
  return {
    openapi: "3.1.0",
    info: {
      title: "EdgeTier",
      version: "1",
      description: "Predictions with a bounded latency, tier by tier.",
      license: { name: "MIT", identifier: "MIT" },
    },
    servers: [{ url: "/" }],
    paths: {
      ...predictionPaths,
      ...embeddingsPaths,
      ...buildOpenInferencePaths(),
      ...metricsPaths,
    },
    security: [{}, { bearer: [] }],
    components: {
      schemas: buildComponentSchemas(),
      securitySchemes: {
        bearer: {
          type: "http",
          scheme: "bearer",
          description: "An API key, or a token from the issuer that the deployment trusts.",
        },
      },
    },
  };
}
