// The Worker's entry: the deployment that `edgetier engine build` has made, restored before the first request.

import deployment from "../../dist/edge/deployment.mjs";
import { restoreBundled } from "../../src/runtime/wasm/restore-bundled.ts";
import { createWorker } from "./worker.ts";

export { MetricsAggregator } from "./metrics-aggregator.ts";
export default createWorker(deployment, await restoreBundled(deployment));
