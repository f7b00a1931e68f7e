// Fixture Worker: the deployed Worker with the models of test/support/fixture-deployment.ts.
import deployment from "../../dist/test/fixture-worker/deployment.mjs";
import { createWorker } from "../../functions/edge/worker.ts";
import { restoreBundledSnapshots } from "../../src/runtime/wasm/restore-bundled-snapshots.ts";

export { MetricsAggregator } from "../../functions/edge/metrics-aggregator.ts";
export default createWorker(deployment, await restoreBundledSnapshots(deployment));
