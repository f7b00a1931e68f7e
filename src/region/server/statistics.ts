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
    coalesced: createDurationSum(),
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
    recordRun(run) {
      if (run.hasFailed) return;
      const record = recordOf(run.tier);
      record.lastRunMs = clock.now();
      addRun(record, run);
    },

    recordOutcome({ tier, durationMs, preprocessMs, isCoalesced, failure }) {
      const record = recordOf(tier);
      if (isCoalesced) {
        add(record.coalesced, 1, durationMs);
        add(record.queue, 1, 0);
      }
      add(failure === undefined ? record.success : record.fail, 1, durationMs);
      if (failure === undefined) add(record.compute.input, 0, preprocessMs); // The run has already counted the request.
    },

    handleEvent(event) {
      if (event.event === "model_loaded") unloaded.delete(keyOf(event));
      if (event.event !== "model_unloaded") return;
      records.delete(keyOf(event));
      unloaded.add(keyOf(event));
    },

    read(model, version) {
      const record = records.get(keyOf({ model, version })) ?? createRecord();
      return { name: model, version: String(version), ...toModelStatistics(record) };
    },
  };
}

function addRun(
  record: ReturnType<typeof createRecord>,
  { requestCount, rows, queueTimesMs, inputMs, inferMs, outputMs }: BatchRun,
): void {
  record.runs++;
  record.rows += rows;
  add(
    record.queue,
    requestCount,
    queueTimesMs.reduce((sum, ms) => sum + ms, 0),
  );
  const sizeSums = getOrAdd(record.bySize, rows, createComputeSums);
  for (const [phase, ms] of [
    ["input", inputMs],
    ["infer", inferMs],
    ["output", outputMs],
  ] as const) {
    add(record.compute[phase], requestCount, requestCount * ms);
    add(sizeSums[phase], 1, ms);
  }
}

function toModelStatistics({
  lastRunMs,
  rows,
  runs,
  success,
  coalesced,
  fail,
  queue,
  compute,
  bySize,
}: ReturnType<typeof createRecord>): Omit<ModelStatistics, "name" | "version"> {
  const sizes = [...bySize].toSorted(([a], [b]) => a - b);
  return {
    last_inference: Math.floor(lastRunMs),
    inference_count: rows,
    execution_count: runs,
    inference_stats: {
      success: toDurationStatistic(success),
      fail: toDurationStatistic(fail),
      queue: toDurationStatistic(queue),
      ...toComputeStatistics(compute),
      cache_hit: toDurationStatistic(coalesced),
      cache_miss: NONE,
    },
    batch_stats: sizes.map(([size, sums]) => ({
      batch_size: size,
      ...toComputeStatistics(sums),
    })),
    memory_usage: [],
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
