// Resolves a model's batching configuration: merges it with the region's defaults, fills every field and converts units.

import {
  mergeServingConfigs,
  type BatchingConfig,
  type QueueConfig,
} from "../../../registry/serving-config.ts";
import { createAdaptivePolicy } from "./adaptive-policy.ts";
import { DEFAULT_QUEUE_POLICY, type PriorityLevelPolicy, type QueuePolicy } from "./batch-queue.ts";
import { createFixedPolicy, type DispatchPolicy } from "./dispatch-policy.ts";
import type { PaddingRule } from "./padding.ts";

export interface SchedulerConfig {
  readonly createPolicy: () => DispatchPolicy;
  /** Whether requests may share runs at all. */
  readonly isBatchingEnabled: boolean;
  /** Maximum rows of one run; a single larger request runs by itself. */
  readonly maxBatchRows: number;
  /** Padding of tensors that clients send. Requests encoded here have their own rule, except for its buckets. */
  readonly padding: PaddingRule | undefined;
  readonly queue: QueuePolicy;
}

type LevelConfig = Pick<
  QueueConfig,
  "timeoutAction" | "defaultTimeoutUs" | "allowTimeoutOverride" | "maxQueueSize"
>;
/** Triton's `priority_queue_policy`: overrides of single levels, keyed by number. */
type PriorityQueueConfig = QueueConfig & {
  readonly byPriority?: Readonly<Record<string, LevelConfig>>;
};

export const DEFAULT_BATCHING = {
  mode: "fixed",
  maxBatchRows: 32,
} as const satisfies BatchingConfig;

/** @param configs in order of precedence, field by field */
export function resolveSchedulerConfig(
  ...configs: readonly (BatchingConfig | undefined)[]
): SchedulerConfig {
  const { batching = {} } = mergeServingConfigs(
    ...configs.flatMap((config) => (config === undefined ? [] : [{ batching: config }])),
  );
  const {
    mode = DEFAULT_BATCHING.mode,
    maxBatchRows = DEFAULT_BATCHING.maxBatchRows,
    preferredBatchRows = [],
    maxQueueDelayUs = 0,
    padding,
    queue,
  } = batching;
  const policies = {
    off: () => createFixedPolicy(),
    fixed: () =>
      createFixedPolicy({
        preferredBatchRows,
        maxQueueDelayMs: maxQueueDelayUs / 1_000,
      }),
    adaptive: createAdaptivePolicy,
  };
  return {
    createPolicy: policies[mode],
    isBatchingEnabled: mode !== "off",
    maxBatchRows,
    padding,
    queue: resolveQueuePolicy(queue),
  };
}

function resolveQueuePolicy(queue: PriorityQueueConfig = {}): QueuePolicy {
  const {
    priorityLevels = DEFAULT_QUEUE_POLICY.priorityLevels,
    defaultPriorityLevel = DEFAULT_QUEUE_POLICY.defaultPriority,
    byPriority = {},
  } = queue;
  return {
    ...DEFAULT_QUEUE_POLICY,
    ...resolveLevelPolicy(queue),
    priorityLevels,
    defaultPriority: Math.min(defaultPriorityLevel, priorityLevels),
    overridesByPriority: new Map(
      Object.entries(byPriority).map(([level, overrides]) => [
        Number(level),
        resolveLevelPolicy(overrides),
      ]),
    ),
  };
}

function resolveLevelPolicy({
  defaultTimeoutUs,
  timeoutAction,
  allowTimeoutOverride,
  maxQueueSize,
}: LevelConfig): Partial<PriorityLevelPolicy> {
  const fields = {
    timeoutAction,
    allowTimeoutOverride,
    maxQueueSize,
    defaultTimeoutMs: defaultTimeoutUs === undefined ? undefined : defaultTimeoutUs / 1_000,
  };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}
