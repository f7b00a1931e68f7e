// GET /metrics in the OpenAPI document.

import * as z from "zod";
import { metricsSnapshot } from "../protocol/metrics.ts";
import { problemSchema, PROBLEM_MEDIA_TYPE } from "../protocol/problem.ts";
import { accessRefusals, body, content, type Paths } from "./openapi-parts.ts";

const problem = (description: string) => content(description, problemSchema, PROBLEM_MEDIA_TYPE);

export const metricsPaths: Paths = {
  "/metrics": {
    get: {
      operationId: "getMetrics",
      summary: "What all isolates have counted",
      description: "For Prometheus, or as JSON for who names `application/json` first in `accept`.",
      responses: {
        200: {
          description: "All series since the aggregator began.",
          content: body({ "text/plain": z.string(), "application/json": metricsSnapshot }).content,
        },
        ...accessRefusals(problem),
        501: problem("This deployment has no aggregator."),
      },
    },
  },
};
