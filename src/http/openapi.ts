// The OpenAPI 3.1 document, made from the wire schemas of src/protocol. (QUERY has no place in OpenAPI 3.1; the
// description of POST names it.)

import * as z from "zod";
import {
  EMBEDDINGS_PATH,
  embeddingsRequestSchema,
  embeddingsProblemSchema,
  embeddingsResponseSchema,
} from "../protocol/embeddings.ts";
import { modelDetailSchema, modelListSchema } from "../protocol/model-detail.ts";
import {
  predictRequestSchema,
  predictParametersQuerySchema,
  predictQuerySchema,
  predictResponseSchema,
} from "../protocol/predict.ts";
import { PROBLEM_MEDIA_TYPE, problemDetailsSchema } from "../protocol/problem-details.ts";
import { regionListSchema } from "../protocol/region-list.ts";
import { modelReportSchema } from "../protocol/model-report.ts";
import { metricsPaths } from "./openapi-metrics.ts";
import {
  accessErrorResponses,
  describeRequestBody,
  buildComponentSchemas,
  describeResponse,
  describeEmptyResponse,
  describeParameters,
  type PathsObject,
} from "./openapi-builders.ts";
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
  /** None, or a credential: which, is the deployment's to say. */
  readonly security: readonly Readonly<Record<string, readonly string[]>>[];
  readonly components: {
    readonly schemas: Readonly<Record<string, object>>;
    readonly securitySchemes: Readonly<Record<string, object>>;
  };
}

const problemResponse = (description: string) =>
  describeResponse(description, problemDetailsSchema, PROBLEM_MEDIA_TYPE);

const clientErrorResponses = {
  400: problemResponse("The request is not valid."),
  404: problemResponse("No such model, version or alias."),
};
const availabilityResponses = {
  ...accessErrorResponses(problemResponse),
  503: problemResponse("The model store or every tier is out of reach; see `retry-after`."),
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
      description:
        "When the answer is wanted, in milliseconds from now; the model's own deadline otherwise.",
    }),
    "cache-control": z
      .string()
      .optional()
      .meta({
        description:
          "`no-cache` or `max-age=0`: a new answer, which is stored; `no-store`: neither read nor stored; `only-if-cached`: 504 rather than a computed answer.",
        examples: ["no-cache"],
      }),
    "x-request-id": z.string().optional(),
    traceparent: z.string().optional(),
  }),
);
const predictResponses = {
  200: describeResponse("The answers, in the order of the inputs.", predictResponseSchema),
  ...clientErrorResponses,
  413: problemResponse("The body, an input, or the number of inputs is over its limit."),
  415: problemResponse("The model does not take the media type, or not this kind of image."),
  ...availabilityResponses,
  504: problemResponse(
    "No tier could answer within the deadline, or no cache has the answer and none may be computed.",
  ),
};

const binaryFileSchema = z.string().meta({ format: "binary" });
const predictionPaths: PathsObject = {
  "/v1/models/{model}/predict": {
    post: {
      operationId: "predict",
      summary: "Predict",
      description:
        "A body in its own media type is one input; its parameters are the query's. The method QUERY takes the same bodies, and is safe to repeat and to cache.",
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
        304: describeEmptyResponse("The client has this answer already."),
      },
    },
  },
  "/v1/regions": {
    get: {
      operationId: "listRegions",
      summary: "Regions: where, how near, how quick, how well",
      responses: {
        200: describeResponse("The nearest first.", regionListSchema),
        ...accessErrorResponses(problemResponse),
      },
    },
  },
  "/v1/models": {
    get: {
      operationId: "listModels",
      summary: "What is served",
      responses: {
        200: describeResponse("All models.", modelListSchema),
        ...availabilityResponses,
      },
    },
  },
  "/v1/models/{model}": {
    get: {
      operationId: "getModel",
      summary: "Versions, aliases, tiers, thresholds and measured figures of a model",
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
      summary: "How well a model's confidences fit, and what other thresholds would do",
      parameters: modelPathParameters,
      responses: {
        200: describeResponse(
          "The report, as it was published with the version.",
          modelReportSchema,
        ),
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
      summary: "Texts to vectors, in OpenAI's shape",
      description:
        "OpenAI's clients work unchanged, with this server's `/v1` as their base URL. One tier answers: the edge's if the model has one, else the region's.",
      parameters: predictHeaderParameters,
      requestBody: describeRequestBody({ "application/json": embeddingsRequestSchema }),
      responses: {
        200: describeResponse("A vector for each input, in their order.", embeddingsResponseSchema),
        400: embeddingsProblemResponse(
          "The request is not valid, or the model gives no embeddings.",
        ),
        404: embeddingsProblemResponse("No such model, version or alias."),
        413: embeddingsProblemResponse(
          "The body, an input, or the number of inputs or tokens is over its limit.",
        ),
        415: embeddingsProblemResponse("The body is not JSON."),
        ...accessErrorResponses(embeddingsProblemResponse),
        503: embeddingsProblemResponse(
          "The model store or the tier is out of reach; see `retry-after`.",
        ),
        504: embeddingsProblemResponse("No tier could answer within the deadline."),
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
          description: "An API key, or a token of the issuer that the deployment trusts.",
        },
      },
    },
  };
}
