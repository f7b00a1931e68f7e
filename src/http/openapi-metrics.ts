// OpenAPI paths: describes GET /metrics.

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
      summary: "Metrics of all isolates",
      description: "Prometheus text format, or JSON if `accept` names `application/json` first.",
      responses: {
        200: {
          description: "All series since the aggregator was created.",
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
