// The Worker as it is deployed, but for its models: those of test/support/fixture-deployment.ts.
import deployment from "../../dist/test/tensor-worker/deployment.mjs";
import { createWorker } from "../../functions/edge/worker.ts";
import { restoreBundled } from "../../src/runtime/wasm/restore-bundled.ts";

export { MetricsAggregator } from "../../functions/edge/metrics-aggregator.ts";
export default createWorker(deployment, await restoreBundled(deployment));
