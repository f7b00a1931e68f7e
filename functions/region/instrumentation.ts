// Distributes the region's events to the log, Triton's statistics and the metrics.

import type { Clock } from "../../src/core/clock.ts";
import type { RegionResponseEvent } from "../../src/region/server/app.ts";
import type { Executor, BatchRun } from "../../src/region/server/executor.ts";
import type { InferOutcome } from "../../src/region/server/infer.ts";
import type { Lifecycle } from "../../src/region/server/lifecycle.ts";
import type { ModelRepository, RepositoryEvent } from "../../src/region/server/model-repository.ts";
import {
  createInferenceStatistics,
  type InferenceStatistics,
} from "../../src/region/server/statistics.ts";
import {
  createRegionMetrics,
  type RegionEventRecord,
  type RegionMetrics,
} from "../../src/telemetry/region-metrics.ts";

export interface Instrumentation {
  readonly statistics: InferenceStatistics;
  readonly metrics: RegionMetrics;
  /** Handles events of the runtime and of execution providers. */
  onEvent(event: RegionEventRecord & object): void;
  onRepositoryEvent(event: RepositoryEvent): void;
  onRun(run: BatchRun): void;
  onOutcome(outcome: InferOutcome): void;
  onResponse(response: RegionResponseEvent): void;
  /** Registers the sources of the gauges. */
  registerGauges(parts: {
    readonly executor: Executor;
    readonly repository: ModelRepository;
    readonly lifecycle: Lifecycle;
  }): void;
}

export interface InstrumentationOptions {
  readonly clock: Clock;
  readonly log: (event: object) => void;
}

export function createInstrumentation({ clock, log }: InstrumentationOptions): Instrumentation {
  const statistics = createInferenceStatistics(clock);
  const metrics = createRegionMetrics({ process: true });

  function onEvent(event: RegionEventRecord & object): void {
    log(event);
    metrics.recordEvent(event);
  }

  return {
    statistics,
    metrics,
    onEvent,
    onRepositoryEvent(event) {
      statistics.handleEvent(event);
      onEvent(event);
    },
    onRun(run) {
      statistics.recordRun(run);
      metrics.recordRun(run);
    },
    onOutcome(outcome) {
      statistics.recordOutcome(outcome);
      metrics.recordInferRequest(outcome);
    },
    onResponse: metrics.recordHttpRequest,
    registerGauges({ executor, repository, lifecycle }) {
      metrics.setGaugeSources({
        queues: () => executor.queueStates(),
        models: () =>
          repository.listLoaded().map(({ manifest, memoryBytes, tiers }) => ({
            model: manifest.model,
            version: manifest.version,
            memoryBytes,
            tiers: tiers.map(({ manifest, providerReports }) => ({
              tier: manifest.id,
              providers: providerReports,
            })),
          })),
        state: () => lifecycle.state,
        inFlight: () => lifecycle.inFlight,
      });
    },
  };
}
