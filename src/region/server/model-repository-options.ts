// Options of the region's model repository.

import type { Clock } from "../../core/clock.ts";
import type { ModelStore } from "../../registry/model-store.ts";
import type { NativeRuntime } from "../../runtime/native/native-runtime.ts";
import type { OperatorConfig } from "./operator-config.ts";
import type { RepositoryEvent } from "./repository-events.ts";

export interface ModelRepositoryOptions {
  readonly store: ModelStore;
  readonly runtime: NativeRuntime;
  readonly operatorConfig?: OperatorConfig;
  readonly clock?: Clock;
  /** Limit of the memory of all loaded models; 0 disables it. */
  readonly memoryBudgetBytes?: number;
  /** Maximum time that a load waits for memory within the budget. */
  readonly memoryTimeoutMs?: number;
  /** Time without requests after which an unreferenced version is unloaded. */
  readonly staleVersionIdleMs?: number;
  /** How long an alias is cached before the store is read again. */
  readonly aliasTtlMs?: number;
  /** Time during which a failed load is repeated without a new attempt; it grows with consecutive failures. */
  readonly retryAfterMs?: number;
  /** Timeout of the store for one file. */
  readonly storeTimeoutMs?: number;
  readonly onEvent?: (event: RepositoryEvent) => void;
}
