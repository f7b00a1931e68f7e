// Edge with hello: the deployed Worker and, in the same isolate, a minimal Hono route `GET /hello`.
import { Hono } from "hono";
import edge from "../../../functions/edge/main.ts";

export { MetricsAggregator } from "../../../functions/edge/metrics-aggregator.ts";

const hello = new Hono().get("/hello", (c) => c.text("hello"));

export default {
  fetch(
    request: Request,
    env: object,
    context: Parameters<typeof edge.fetch>[2],
  ): Response | Promise<Response> {
    return request.url.endsWith("/hello")
      ? hello.fetch(request)
      : edge.fetch(request, env, context);
  },
};
