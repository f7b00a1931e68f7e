// Worker entry: restores the deployment that `edgetier engine build` created, before the first request.

import deployment from "../../dist/edge/deployment.mjs";
import { restoreBundledSnapshots } from "../../src/runtime/wasm/restore-bundled-snapshots.ts";
import { createWorker } from "./worker.ts";

export { MetricsAggregator } from "./metrics-aggregator.ts";
export default createWorker(deployment, await restoreBundledSnapshots(deployment));
