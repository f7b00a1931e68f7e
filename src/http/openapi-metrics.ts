// GET /metrics in the OpenAPI document.

import * as z from "zod";
import { metricsSnapshotSchema } from "../protocol/metrics-snapshot.ts";
import { problemDetailsSchema, PROBLEM_MEDIA_TYPE } from "../protocol/problem-details.ts";
import {
  accessErrorResponses,
  describeRequestBody,
  describeResponse,
  type PathsObject,
} from "./openapi-builders.ts";

const problemResponse = (description: string) =>
  describeResponse(description, problemDetailsSchema, PROBLEM_MEDIA_TYPE);

export const metricsPaths: PathsObject = {
  "/metrics": {
    get: {
      operationId: "getMetrics",
      summary: "What all isolates have counted",
      description: "For Prometheus, or as JSON for who names `application/json` first in `accept`.",
      responses: {
        200: {
          description: "All series since the aggregator began.",
          content: describeRequestBody({
            "text/plain": z.string(),
            "application/json": metricsSnapshotSchema,
          }).content,
        },
        ...accessErrorResponses(problemResponse),
        501: problemResponse("This deployment has no aggregator."),
      },
    },
  },
};
