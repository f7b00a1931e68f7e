// Triton's statistics of each loaded version, from the executor's runs and the outcomes of requests.
//
// Durations are a request's, as in Triton's InferenceStatsAggregator: each of a shared run's has all of its compute time.
// `success` and `fail` last from the decoded request to its outputs. `compute_input` is preprocessing and merging, what
// the graph needs before it can run; `compute_output` is splitting. Reading a request and writing its answer is in none.
// A request that another one's run has answered is a cache hit: it counts in `success` and `queue`, and in no compute and no
// execution, as one that Triton's response cache answers does.
// Requests that are refused for what they say are not counted. They go with `unload`; eviction is not the client's doing.

import { systemClock, type Clock } from "../../core/clock.ts";
import type { DurationStatistic, ModelStatistics } from "../../protocol/statistics.ts";
import type { Run } from "./executor.ts";
import type { InferOutcome } from "./infer.ts";
import type { RepositoryEvent } from "./model-repository.ts";

export interface Statistics {
  ran(run: Run): void;
  finished(outcome: InferOutcome): void;
  observe(event: RepositoryEvent): void;
  /** All zero for one that has not been asked. */
  of(model: string, version: number): ModelStatistics;
}

interface ModelVersion {
  readonly model: string;
  readonly version: number;
}

interface Sum {
  count: number;
  ms: number;
}

const newCompute = () => ({ input: newSum(), infer: newSum(), output: newSum() });

function newRecord() {
  return {
    lastRunMs: 0,
    rows: 0,
    runs: 0,
    success: newSum(),
    shared: newSum(),
    fail: newSum(),
    queue: newSum(),
    compute: newCompute(),
    bySize: new Map<number, ReturnType<typeof newCompute>>(),
  };
}

export function createStatistics(clock: Clock = systemClock): Statistics {
  /** By "model@version". */
  const records = new Map<string, ReturnType<typeof newRecord>>();
  /** Unloaded, and not loaded again: what was under way then counts no more. */
  const gone = new Set<string>();

  const recordOf = (of: ModelVersion) =>
    gone.has(keyOf(of)) ? newRecord() : getOrAdd(records, keyOf(of), newRecord);

  return {
    ran({ of, works, rows, waitedMs, inputMs, inferMs, outputMs, failed }) {
      if (failed) return;
      const record = recordOf(of);
      record.lastRunMs = clock.now();
      record.runs++;
      record.rows += rows;
      add(
        record.queue,
        works,
        waitedMs.reduce((sum, ms) => sum + ms, 0),
      );
      const size = getOrAdd(record.bySize, rows, newCompute);
      for (const [phase, ms] of [
        ["input", inputMs],
        ["infer", inferMs],
        ["output", outputMs],
      ] as const) {
        add(record.compute[phase], works, works * ms);
        add(size[phase], 1, ms);
      }
    },

    finished({ of, durationMs, preprocessMs, isShared, failure }) {
      const record = recordOf(of);
      if (isShared) {
        add(record.shared, 1, durationMs);
        add(record.queue, 1, 0);
      }
      add(failure === undefined ? record.success : record.fail, 1, durationMs);
      if (failure === undefined) add(record.compute.input, 0, preprocessMs); // counted with its run
    },

    observe(event) {
      if (event.event === "model_loaded") gone.delete(keyOf(event));
      if (event.event !== "model_unloaded") return;
      records.delete(keyOf(event));
      gone.add(keyOf(event));
    },

    of(model, version) {
      const { lastRunMs, rows, runs, success, shared, fail, queue, compute, bySize } =
        records.get(keyOf({ model, version })) ?? newRecord();
      const sizes = [...bySize].toSorted(([a], [b]) => a - b);
      return {
        name: model,
        version: String(version),
        last_inference: Math.floor(lastRunMs),
        inference_count: rows,
        execution_count: runs,
        inference_stats: {
          success: written(success),
          fail: written(fail),
          queue: written(queue),
          ...computed(compute),
          cache_hit: written(shared),
          cache_miss: NONE,
        },
        batch_stats: sizes.map(([size, ofSize]) => ({ batch_size: size, ...computed(ofSize) })),
        memory_usage: [],
      };
    },
  };
}

const keyOf = ({ model, version }: ModelVersion) => `${model}@${version}`;

/** Nothing is kept that could be missed: the edge caches answers. */
const NONE: DurationStatistic = { count: 0, ns: 0 };

function newSum(): Sum {
  return { count: 0, ms: 0 };
}

function add(sum: Sum, count: number, ms: number): void {
  sum.count += count;
  sum.ms += ms;
}

const written = ({ count, ms }: Sum): DurationStatistic => ({ count, ns: Math.round(ms * 1e6) });

function computed({ input, infer, output }: ReturnType<typeof newCompute>) {
  return {
    compute_input: written(input),
    compute_infer: written(infer),
    compute_output: written(output),
  };
}

function getOrAdd<Key, Value>(map: Map<Key, Value>, key: Key, create: () => Value): Value {
  const existing = map.get(key);
  if (existing !== undefined) return existing;
  const created = create();
  map.set(key, created);
  return created;
}
