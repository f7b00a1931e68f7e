// Aggregator Worker: the metrics aggregator, and a Worker that forwards requests to it.
import { MetricsAggregator } from "../../functions/edge/metrics-aggregator.ts";
import type { MetricsAggregatorNamespace } from "../../src/http/metrics-config.ts";
import type { MetricsBatch } from "../../src/telemetry/metrics-aggregate.ts";

export { MetricsAggregator };

export default {
  async fetch(
    request: Request,
    { EDGETIER_METRICS: aggregators }: { readonly EDGETIER_METRICS: MetricsAggregatorNamespace },
  ): Promise<Response> {
    const aggregator = aggregators.getByName("one");
    const { pathname } = new URL(request.url);
    if (pathname === "/read") return Response.json(await aggregator.read());
    if (pathname === "/report") await aggregator.report((await request.json()) as MetricsBatch);
    return new Response(null, { status: pathname === "/report" ? 204 : 200 });
  },
};
