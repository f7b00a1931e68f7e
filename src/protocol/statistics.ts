// Triton's statistics extension: what `GET /v2/models[/{model}[/versions/{version}]]/stats` answers.
// https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_statistics.md

export interface DurationStatistic {
  readonly count: number;
  /** Of all of them together. */
  readonly ns: number;
}

export interface ModelStatistics {
  readonly name: string;
  readonly version: string;
  /** Milliseconds since the epoch; 0 before the first. */
  readonly last_inference: number;
  /** Rows. */
  readonly inference_count: number;
  /** Runs. */
  readonly execution_count: number;
  /** By request. */
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
  /** By run, for each number of rows. */
  readonly batch_stats: readonly BatchStatistics[];
  readonly memory_usage: readonly never[];
}

export interface BatchStatistics {
  readonly batch_size: number;
  readonly compute_input: DurationStatistic;
  readonly compute_infer: DurationStatistic;
  readonly compute_output: DurationStatistic;
}
