// Brings what an isolate has counted to where it is summed up, after the responses and about once a second.
//
// One batch is under way at a time. If nobody knows whether it was taken, it is sent again just as it was, and the aggregator takes
// it once; meanwhile the recorder goes on, which costs no more memory. So counts are exact, and what is given up is counted itself.
// Only an isolate that ends without a word takes something along: what it has counted since its last batch.

import type { Clock } from "../core/clock.ts";
import type { MetricsBatch } from "./metrics-aggregate.ts";
import type { MetricsRecorder } from "./metrics-recorder.ts";
import { countEvents } from "./series-table.ts";

export interface MetricsReporterOptions {
  readonly recorder: MetricsRecorder;
  readonly clock: Clock;
  /** This isolate's name: as in Batch. */
  readonly isolateId: string;
  /** For how long is counted before a batch goes out. */
  readonly intervalMs: number;
  /** Resolves when the batch has been taken for good. Left out, nothing has to be sent. */
  readonly send?: ((batch: MetricsBatch) => Promise<void>) | undefined;
  /** Is told of each batch once. */
  readonly onBatch?: ((batch: MetricsBatch) => void) | undefined;
  /** The first failure of several in a row. */
  readonly onFailure?: ((error: unknown) => void) | undefined;
}

export interface MetricsReporter {
  /** After each request: has a batch go out soon, if that is not on its way. */
  schedule(waitUntil: (work: Promise<unknown>) => void): void;
  /** Sends at once. Never rejects. */
  flush(): Promise<void>;
}

/** Bounds a batch at some 50 kB, and what Workers Analytics Engine takes of one request (250 points). The rest goes with the next. */
export const MAX_BATCH_SERIES = 250;
const SEND_TIMEOUT_MS = 5_000;
/** The platform may end a request's work without a word: another request then does it. */
const GRACE_MS = 1_000;
/** Of one request's work, while something is left to send; the platform ends it after 30 s, and the free plan allows 50 subrequests. */
const MAX_FLUSHES_PER_REQUEST = 4;
/** A batch that was not taken for so long; aggregators remember for longer what they took. */
const MAX_BATCH_AGE_MS = 600_000;

export function createMetricsReporter({
  recorder,
  clock,
  isolateId: isolate,
  intervalMs,
  send = async () => {},
  onBatch = () => {},
  onFailure = () => {},
}: MetricsReporterOptions): MetricsReporter {
  let underWay: { readonly batch: MetricsBatch; readonly madeAtMs: number } | undefined;
  let sequence = 0;
  let isFailing = false;
  /** Until then some request is seeing to it. */
  let claimedUntilMs = -Infinity;
  let runs = 0;

  const pause = (delayMs: number) =>
    new Promise<void>((resolve) => clock.setTimer(resolve, delayMs));

  function nextBatch(): typeof underWay {
    if (recorder.seriesCount === 0) return undefined;
    const batch = { isolate, sequence: ++sequence, series: recorder.drain(MAX_BATCH_SERIES) };
    onBatch(batch);
    return { batch, madeAtMs: clock.now() };
  }

  function giveUpIfOld(): void {
    if (underWay === undefined || clock.now() - underWay.madeAtMs < MAX_BATCH_AGE_MS) return;
    const events = underWay.batch.series.reduce((sum, series) => sum + countEvents(series), 0);
    recorder.count("edgetier_telemetry_dropped_total", { reason: "unsent" }, events);
    underWay = undefined;
  }

  async function flush(): Promise<void> {
    giveUpIfOld();
    const sent = (underWay ??= nextBatch());
    if (sent === undefined) return;
    try {
      await within(SEND_TIMEOUT_MS, send(sent.batch));
      if (underWay === sent) underWay = undefined; // else another request was quicker
      isFailing = false;
    } catch (error) {
      if (!isFailing) onFailure(error);
      isFailing = true;
    }
  }

  async function within(timeoutMs: number, work: Promise<void>): Promise<void> {
    let stop = () => {};
    const late = new Promise<never>((_, reject) => {
      stop = clock.setTimer(() => reject(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
    });
    try {
      await Promise.race([work, late]);
    } finally {
      stop();
    }
  }

  function claim(): void {
    claimedUntilMs = clock.now() + intervalMs + SEND_TIMEOUT_MS + GRACE_MS;
  }

  async function run(): Promise<void> {
    const own = ++runs;
    const isLatest = () => own === runs;
    for (let round = 1; round <= MAX_FLUSHES_PER_REQUEST && isLatest(); round++) {
      claim();
      await pause(intervalMs);
      // What is counted while the last batch is on its way is seen to by the request that counts it.
      if (round === MAX_FLUSHES_PER_REQUEST && isLatest()) claimedUntilMs = -Infinity;
      await flush();
      if (underWay === undefined && recorder.seriesCount === 0) break;
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
