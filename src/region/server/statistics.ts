// Triton's statistics of each loaded version, computed from the executor's runs and the outcomes of requests.
//
// Durations are per request, as in Triton's InferenceStatsAggregator: each request of a shared run counts the whole compute
// time. `success` and `fail` last from the decoded request to its outputs. `compute_input` is preprocessing and merging;
// `compute_output` is splitting. Neither includes reading the request or writing the response.
//
// A coalesced request is a cache hit, as with Triton's response cache: it counts in `success` and `queue`, but not in compute
// and executions. Requests rejected as invalid are not counted. `unload` resets the statistics; eviction does not, because no
// client caused it.

import { systemClock, type Clock } from "../../core/clock.ts";
import type { DurationStatistic, ModelStatistics } from "../../protocol/statistics.ts";
import type { BatchRun } from "./executor.ts";
import type { InferOutcome } from "./infer.ts";
import type { RepositoryEvent } from "./model-repository.ts";

export interface InferenceStatistics {
  recordRun(run: BatchRun): void;
  recordOutcome(outcome: InferOutcome): void;
  handleEvent(event: RepositoryEvent): void;
  /** Returns zeros for a version without requests. */
  read(model: string, version: number): ModelStatistics;
}

interface ModelVersion {
  readonly model: string;
  readonly version: number;
}

interface DurationSum {
  count: number;
  ms: number;
}

const createComputeSums = () => ({
  input: createDurationSum(),
  infer: createDurationSum(),
  output: createDurationSum(),
});

function createRecord() {
  return {
    lastRunMs: 0,
    rows: 0,
    runs: 0,
    success: createDurationSum(),
    shared: createDurationSum(),
    fail: createDurationSum(),
    queue: createDurationSum(),
    compute: createComputeSums(),
    bySize: new Map<number, ReturnType<typeof createComputeSums>>(),
  };
}

export function createInferenceStatistics(clock: Clock = systemClock): InferenceStatistics {
  /** Keyed by "model@version". */
  const records = new Map<string, ReturnType<typeof createRecord>>();
  /** Versions that were unloaded and not loaded again; their last requests no longer count. */
  const unloaded = new Set<string>();

  const recordOf = (version: ModelVersion) =>
    unloaded.has(keyOf(version)) ? createRecord() : getOrAdd(records, keyOf(version), createRecord);

  return {
    recordRun({
      tier: of,
      requestCount: works,
      rows,
      queueTimesMs: waitedMs,
      inputMs,
      inferMs,
      outputMs,
      hasFailed: failed,
    }) {
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
      const size = getOrAdd(record.bySize, rows, createComputeSums);
      for (const [phase, ms] of [
        ["input", inputMs],
        ["infer", inferMs],
        ["output", outputMs],
      ] as const) {
        add(record.compute[phase], works, works * ms);
        add(size[phase], 1, ms);
      }
    },

    recordOutcome({ tier: of, durationMs, preprocessMs, isCoalesced: isShared, failure }) {
      const record = recordOf(of);
      if (isShared) {
        add(record.shared, 1, durationMs);
        add(record.queue, 1, 0);
      }
      add(failure === undefined ? record.success : record.fail, 1, durationMs);
      if (failure === undefined) add(record.compute.input, 0, preprocessMs); // counted with its run
    },

    handleEvent(event) {
      if (event.event === "model_loaded") gone.delete(keyOf(event));
      if (event.event !== "model_unloaded") return;
      records.delete(keyOf(event));
      gone.add(keyOf(event));
    },

    read(model, version) {
      const { lastRunMs, rows, runs, success, shared, fail, queue, compute, bySize } =
        records.get(keyOf({ model, version })) ?? createRecord();
      const sizes = [...bySize].toSorted(([a], [b]) => a - b);
      return {
        name: model,
        version: String(version),
        last_inference: Math.floor(lastRunMs),
        inference_count: rows,
        execution_count: runs,
        inference_stats: {
          success: toDurationStatistic(success),
          fail: toDurationStatistic(fail),
          queue: toDurationStatistic(queue),
          ...toComputeStatistics(compute),
          cache_hit: toDurationStatistic(shared),
          cache_miss: NONE,
        },
        batch_stats: sizes.map(([size, ofSize]) => ({
          batch_size: size,
          ...toComputeStatistics(ofSize),
        })),
        memory_usage: [],
      };
    },
  };
}

const keyOf = ({ model, version }: ModelVersion) => `${model}@${version}`;

/** The region caches no responses, so it has no cache misses; the edge caches answers. */
const NONE: DurationStatistic = { count: 0, ns: 0 };

function createDurationSum(): DurationSum {
  return { count: 0, ms: 0 };
}

function add(sum: DurationSum, count: number, ms: number): void {
  sum.count += count;
  sum.ms += ms;
}

const toDurationStatistic = ({ count, ms }: DurationSum): DurationStatistic => ({
  count,
  ns: Math.round(ms * 1e6),
});

function toComputeStatistics({ input, infer, output }: ReturnType<typeof createComputeSums>) {
  return {
    compute_input: toDurationStatistic(input),
    compute_infer: toDurationStatistic(infer),
    compute_output: toDurationStatistic(output),
  };
}

function getOrAdd<Key, Value>(map: Map<Key, Value>, key: Key, create: () => Value): Value {
  const existing = map.get(key);
  if (existing !== undefined) return existing;
  const created = create();
  map.set(key, created);
  return created;
}
