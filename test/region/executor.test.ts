// Executor contract, for each batching mode.
import { createExecutor } from "../../src/region/server/batching/create-executor.ts";
import { executorContract } from "../contract/executor.ts";

for (const mode of ["off", "fixed", "adaptive"] as const) {
  executorContract(mode, ({ clock, waitingRows = 64 } = {}) =>
    createExecutor({
      defaultBatching: { mode, maxBatchRows: 8, queue: { maxQueueSize: waitingRows } },
      ...(clock === undefined ? {} : { clock }),
    }),
  );
}
