// The executor contract over both of them: one request at a time, and dynamic batching with each of its policies.
import { createAdaptivePolicy } from "../../src/region/server/batching/adaptive-policy.ts";
import { createBatchingExecutor } from "../../src/region/server/batching/batching-executor.ts";
import { createFixedPolicy, type DelayPolicy } from "../../src/region/server/batching/delay-policy.ts";
import { createDirectExecutor } from "../../src/region/server/executor.ts";
import { executorContract, type ExecutorOptions } from "../contract/executor.ts";

const timed = ({ clock }: ExecutorOptions) => (clock === undefined ? {} : { clock });
/** One place is the running work's: its queue is bounded beside it. */
const batching = (policy: () => DelayPolicy) => (options: ExecutorOptions = {}) =>
  createBatchingExecutor({ policy, maxBatchRows: 8, queue: { maxQueueSize: (options.places ?? 65) - 1 }, ...timed(options) });

executorContract("direct", (options = {}) => createDirectExecutor({ maxQueued: options.places ?? 64, ...timed(options) }));
executorContract("batching, fixed", batching(() => createFixedPolicy()));
executorContract("batching, adaptive", batching(createAdaptivePolicy));
