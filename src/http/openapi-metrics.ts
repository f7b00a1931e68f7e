// GET /metrics in the OpenAPI document.

import * as z from "zod";
import { metricsSnapshot } from "../protocol/metrics.ts";
import { problemSchema, PROBLEM_MEDIA_TYPE } from "../protocol/problem.ts";
import {
  accessErrorResponses,
  describeRequestBody,
  describeResponse,
  type PathsObject,
} from "./openapi-builders.ts";

const problemResponse = (description: string) =>
  describeResponse(description, problemSchema, PROBLEM_MEDIA_TYPE);

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
            "application/json": metricsSnapshot,
          }).content,
        },
        ...accessErrorResponses(problemResponse),
        501: problemResponse("This deployment has no aggregator."),
      },
    },
  },
};
