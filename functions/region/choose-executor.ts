// How requests get onto sessions, by the settings.

import { createAdaptivePolicy } from "../../src/region/server/batching/adaptive-policy.ts";
import { createBatchingExecutor } from "../../src/region/server/batching/batching-executor.ts";
import { createFixedPolicy } from "../../src/region/server/batching/delay-policy.ts";
import { createDirectExecutor, type Executor } from "../../src/region/server/executor.ts";
import type { RegionSettings } from "./settings.ts";

/** @param log takes one event an unbatchable session */
export function chooseExecutor(settings: RegionSettings, log: (event: object) => void): Executor {
  const kind = settings.EDGETIER_REGION_BATCHING;
  if (kind === "off") return createDirectExecutor({ maxQueued: settings.EDGETIER_REGION_MAX_QUEUED });
  const fixed = {
    preferredRows: settings.EDGETIER_REGION_PREFERRED_BATCH_ROWS,
    maxQueueDelayMs: settings.EDGETIER_REGION_MAX_QUEUE_DELAY_US / 1_000,
  };
  return createBatchingExecutor({
    policy: kind === "fixed" ? () => createFixedPolicy(fixed) : createAdaptivePolicy,
    maxBatchRows: settings.EDGETIER_REGION_MAX_BATCH_ROWS,
    queue: { maxQueueSize: settings.EDGETIER_REGION_MAX_QUEUE_SIZE },
    onUnbatchable: ({ problem }) => log({ event: "session_unbatchable", problem }),
  });
}
