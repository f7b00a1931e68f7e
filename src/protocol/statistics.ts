// Triton's statistics extension: response of `GET /v2/models[/{model}[/versions/{version}]]/stats`.
// https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_statistics.md

export interface DurationStatistic {
  readonly count: number;
  /** Total duration in nanoseconds. */
  readonly ns: number;
}

export interface ModelStatistics {
  readonly name: string;
  readonly version: string;
  /** Milliseconds since the epoch; 0 before the first inference. */
  readonly last_inference: number;
  /** Number of rows. */
  readonly inference_count: number;
  /** Number of runs. */
  readonly execution_count: number;
  /** Durations per request. */
  readonly inference_stats: {
    readonly success: DurationStatistic;
    readonly fail: DurationStatistic;
    readonly queue: DurationStatistic;
    readonly compute_input: DurationStatistic;
    readonly compute_infer: DurationStatistic;
    readonly compute_output: DurationStatistic;
    readonly cache_hit: DurationStatistic;
    readonly cache_miss: DurationStatistic;
  };
  /** Durations per run, for each number of rows. */
  readonly batch_stats: readonly BatchStatistics[];
  readonly memory_usage: readonly never[];
}

export interface BatchStatistics {
  readonly batch_size: number;
  readonly compute_input: DurationStatistic;
  readonly compute_infer: DurationStatistic;
  readonly compute_output: DurationStatistic;
}
