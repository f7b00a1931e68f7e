// Metrics reporter: sends an isolate's deltas to the aggregator after responses, about once a second.
//
// One batch is in flight at a time. If its delivery is uncertain, the same batch is sent again, and the aggregator adds it
// once. The recorder continues in the meantime, without more memory. Counts are therefore exact, and discarded batches
// are counted as such. Only an isolate that is terminated loses its deltas since the last batch.

import type { Clock } from "../core/clock.ts";
import type { WaitUntil } from "../core/tracing.ts";
import type { MetricsBatch } from "./metrics-aggregate.ts";
import type { MetricsRecorder } from "./metrics-recorder.ts";
import { countEvents } from "./series-table.ts";

export interface MetricsReporterOptions {
  readonly recorder: MetricsRecorder;
  readonly clock: Clock;
  /** Value of `MetricsBatch.isolate`. */
  readonly isolateId: string;
  /** Delay before a batch is sent. */
  readonly intervalMs: number;
  /** Resolves when the batch is stored. Defaults to a function that discards it. */
  readonly send?: ((batch: MetricsBatch) => Promise<void>) | undefined;
  /** Called once for each batch. */
  readonly onBatch?: ((batch: MetricsBatch) => void) | undefined;
  /** Called for the first of several consecutive failures. */
  readonly onFailure?: ((error: unknown) => void) | undefined;
}

export interface MetricsReporter {
  /** Schedules a batch after a request, unless one is scheduled already. */
  schedule(waitUntil: WaitUntil): void;
  /** Sends a batch immediately. Never rejects. */
  flush(): Promise<void>;
}

/** Limits a batch to about 50 kB, and to the 250 points per request of Workers Analytics Engine. */
export const MAX_BATCH_SERIES = 250;
const SEND_TIMEOUT_MS = 5_000;
/** Slack after which another request takes over. The platform may terminate a request's work without notice. */
const GRACE_MS = 1_000;
/**
 * Maximum number of batches per request. The platform ends work after 30 s, and its free plan allows 50 subrequests.
 */
const MAX_FLUSHES_PER_REQUEST = 4;
/** Age at which an unconfirmed batch is discarded. Aggregators remember confirmed batches for longer. */
const MAX_BATCH_AGE_MS = 600_000;

export function createMetricsReporter({
  recorder,
  clock,
  isolateId,
  intervalMs,
  send = async () => {},
  onBatch = () => {},
  onFailure = () => {},
}: MetricsReporterOptions): MetricsReporter {
  const batches = createBatchQueue(recorder, clock, isolateId, onBatch);
  let isFailing = false;
  /** Until this time, a request is responsible for sending. */
  let claimedUntilMs = -Infinity;
  let lastRunId = 0;

  async function flush(): Promise<void> {
    const pending = batches.current();
    if (pending === undefined) return;
    try {
      await withTimeout(clock, SEND_TIMEOUT_MS, send(pending.batch));
      batches.confirm(pending);
      isFailing = false;
    } catch (error) {
      if (!isFailing) onFailure(error);
      isFailing = true;
    }
  }

  function claim(): void {
    claimedUntilMs = clock.now() + intervalMs + SEND_TIMEOUT_MS + GRACE_MS;
  }

  async function run(): Promise<void> {
    const runId = ++lastRunId;
    const isLatest = () => runId === lastRunId;
    for (let round = 1; round <= MAX_FLUSHES_PER_REQUEST && isLatest(); round++) {
      claim();
      await new Promise<void>((resolve) => clock.setTimer(resolve, intervalMs));
      // Events during the last flush are sent by the request that counts them.
      if (round === MAX_FLUSHES_PER_REQUEST && isLatest()) claimedUntilMs = -Infinity;
      await flush();
      if (batches.isEmpty()) break;
    }
    if (isLatest()) claimedUntilMs = -Infinity;
  }

  return {
    flush,
    schedule(waitUntil) {
      if (clock.now() < claimedUntilMs) return;
      claim();
      waitUntil(run());
    },
  };
}

interface PendingBatch {
  readonly batch: MetricsBatch;
  readonly createdAtMs: number;
}

/** Holds the batch in flight until it is confirmed or too old. */
function createBatchQueue(
  recorder: MetricsRecorder,
  clock: Clock,
  isolate: string,
  onBatch: (batch: MetricsBatch) => void,
) {
  let pending: PendingBatch | undefined;
  let sequence = 0;

  function discardIfOld(): void {
    if (pending === undefined || clock.now() - pending.createdAtMs < MAX_BATCH_AGE_MS) return;
    const events = pending.batch.series.reduce((sum, series) => sum + countEvents(series), 0);
    recorder.count("edgetier_telemetry_dropped_total", { reason: "unsent" }, events);
    pending = undefined;
  }

  function nextBatch(): PendingBatch | undefined {
    if (recorder.seriesCount === 0) return undefined;
    const batch = { isolate, sequence: ++sequence, series: recorder.drain(MAX_BATCH_SERIES) };
    onBatch(batch);
    return { batch, createdAtMs: clock.now() };
  }

  return {
    current(): PendingBatch | undefined {
      discardIfOld();
      return (pending ??= nextBatch());
    },
    confirm(confirmed: PendingBatch): void {
      // Another request may have confirmed it, and the next batch may be pending.
      if (pending === confirmed) pending = undefined;
    },
    isEmpty: () => pending === undefined && recorder.seriesCount === 0,
  };
}

async function withTimeout(clock: Clock, timeoutMs: number, work: Promise<void>): Promise<void> {
  let stopTimer = () => {};
  const timeout = new Promise<never>((_, reject) => {
    stopTimer = clock.setTimer(
      () => reject(new Error(`no response within ${timeoutMs} ms`)),
      timeoutMs,
    );
  });
  try {
    await Promise.race([work, timeout]);
  } finally {
    stopTimer();
  }
}
