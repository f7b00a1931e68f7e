// How requests get onto sessions: the region's defaults, which a model's own configuration goes before.

import { createExecutor } from "../../src/region/server/batching/create-executor.ts";
import type { Executor, Run } from "../../src/region/server/executor.ts";
import type { RegionSettings } from "./settings.ts";

/**
 * @param log takes an event for each session whose outputs forbid shared runs, or padding
 * @param onRun called once for each run
 */
export function chooseExecutor(settings: RegionSettings, log: (event: object) => void, onRun: (run: Run) => void = () => {}): Executor {
  return createExecutor({
    defaults: {
      mode: settings.EDGETIER_REGION_BATCHING,
      maxBatchRows: settings.EDGETIER_REGION_MAX_BATCH_ROWS,
      preferredBatchRows: settings.EDGETIER_REGION_PREFERRED_BATCH_ROWS,
      maxQueueDelayUs: settings.EDGETIER_REGION_MAX_QUEUE_DELAY_US,
      queue: { maxQueueSize: settings.EDGETIER_REGION_MAX_QUEUE_SIZE },
    },
    onRun,
    onUnbatchable: ({ of, problem }) => log({ event: "session_unbatchable", ...of, problem }),
  });
}
