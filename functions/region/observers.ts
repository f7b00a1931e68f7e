// Who is told what happens in the region: the log, Triton's statistics, the metrics.

import type { Clock } from "../../src/core/clock.ts";
import type { RegionAnswer } from "../../src/region/server/app.ts";
import type { Executor, Run } from "../../src/region/server/executor.ts";
import type { InferOutcome } from "../../src/region/server/infer.ts";
import type { Lifecycle } from "../../src/region/server/lifecycle.ts";
import type { ModelRepository, RepositoryEvent } from "../../src/region/server/model-repository.ts";
import { createStatistics, type Statistics } from "../../src/region/server/statistics.ts";
import {
  createRegionMetrics,
  type EventFacts,
  type RegionMetrics,
} from "../../src/telemetry/region-metrics.ts";

export interface Observers {
  readonly statistics: Statistics;
  readonly metrics: RegionMetrics;
  /** Of the runtime, of execution providers. */
  onEvent(event: EventFacts & object): void;
  onRepositoryEvent(event: RepositoryEvent): void;
  onRun(run: Run): void;
  onOutcome(outcome: InferOutcome): void;
  onAnswer(answer: RegionAnswer): void;
  /** What the gauges show. */
  watch(parts: {
    readonly executor: Executor;
    readonly repository: ModelRepository;
    readonly lifecycle: Lifecycle;
  }): void;
}

export interface ObserverOptions {
  readonly clock: Clock;
  readonly log: (event: object) => void;
}

export function createObservers({ clock, log }: ObserverOptions): Observers {
  const statistics = createStatistics(clock);
  const metrics = createRegionMetrics({ process: true });

  function onEvent(event: EventFacts & object): void {
    log(event);
    metrics.observe(event);
  }

  return {
    statistics,
    metrics,
    onEvent,
    onRepositoryEvent(event) {
      statistics.observe(event);
      onEvent(event);
    },
    onRun(run) {
      statistics.ran(run);
      metrics.ran(run);
    },
    onOutcome(outcome) {
      statistics.finished(outcome);
      metrics.finished(outcome);
    },
    onAnswer: metrics.answered,
    watch({ executor, repository, lifecycle }) {
      metrics.watch({
        queues: () => executor.queues(),
        models: () =>
          repository.allLoaded().map(({ manifest, bytes, tiers }) => ({
            model: manifest.model,
            version: manifest.version,
            bytes,
            tiers: tiers.map(({ manifest, providers }) => ({ tier: manifest.id, providers })),
          })),
        state: () => lifecycle.state,
        inFlight: () => lifecycle.inFlight,
      });
    },
  };
}
