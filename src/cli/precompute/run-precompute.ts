// Precompute run: sends batches at a bounded rate, retries them as the edge demands, and saves progress after each.

import { type Clock, systemClock } from "../../core/clock.ts";
import { cliErrors } from "../errors.ts";
import type { BatchResult } from "./batch-predictor.ts";
import type { InputLine, PrecomputeInput } from "./inputs.ts";
import type { PrecomputeFailure, PrecomputeState } from "./progress-state.ts";

export interface PrecomputeOptions {
  readonly inputs: readonly InputLine[];
  readonly state: PrecomputeState;
  /** Inputs per request. */
  readonly batchSize: number;
  /** Maximum inputs per second. Undefined: no limit. */
  readonly ratePerSecond: number | undefined;
  readonly predictBatch: (inputs: readonly PrecomputeInput[]) => Promise<BatchResult>;
  readonly log: (line: string) => void;
  readonly clock?: Clock;
}

export interface PrecomputeReport {
  readonly asked: number;
  /** Number of inputs that a cache answered. */
  readonly cached: number;
  readonly computed: number;
  /** Number of inputs that were rejected, or whose answers are not cacheable. */
  readonly failed: number;
  readonly hitShare: number;
  readonly failures: readonly PrecomputeFailure[];
}

const MAX_ATTEMPTS = 6;
const MIN_BACKOFF_MS = 500;
const MAX_BACKOFF_MS = 60_000;
const LOG_INTERVAL_MS = 2_000;
const DEGRADED_DETAIL =
  "A fault or the deadline prevented the call to a better tier, so the answer is not cached.";

/** @throws the edge's last error after repeated retries; the progress until then is saved */
export async function runPrecompute(options: PrecomputeOptions): Promise<PrecomputeReport> {
  const { inputs, state, batchSize, log, clock = systemClock } = options;
  const run = new PrecomputeRun(options, clock);
  if (run.processed > 0)
    log(`resuming after ${run.processed} of ${inputs.length} inputs, from ${state.path}`);
  const started = { atMs: clock.now(), processed: run.processed };
  let loggedAtMs = clock.now();
  while (run.processed < inputs.length) {
    await run.processBatch(inputs.slice(run.processed, run.processed + batchSize));
    const elapsedMs = clock.now() - started.atMs;
    const processed = run.processed - started.processed;
    if (clock.now() - loggedAtMs >= LOG_INTERVAL_MS) {
      loggedAtMs = clock.now();
      log(run.describeProgress(Math.round((1_000 * processed) / elapsedMs)));
    }
    const dueMs =
      options.ratePerSecond === undefined ? 0 : (1_000 * processed) / options.ratePerSecond;
    if (dueMs > elapsedMs && run.processed < inputs.length) await pause(clock, dueMs - elapsedMs);
  }
  return run.report();
}

const pause = (clock: Clock, ms: number) =>
  new Promise<void>((resolve) => void clock.setTimer(resolve, ms));

type FinalBatchResult = Exclude<BatchResult, { readonly kind: "retry-later" }>;

/** Counts the results of a run and saves them. */
class PrecomputeRun {
  readonly #options: PrecomputeOptions;
  readonly #clock: Clock;
  readonly #failures: PrecomputeFailure[];
  #processed: number;
  #cached: number;
  #computed: number;

  constructor(options: PrecomputeOptions, clock: Clock) {
    const { asked, cached, computed, failures } = options.state.progress;
    this.#options = options;
    this.#clock = clock;
    this.#processed = asked;
    this.#cached = cached;
    this.#computed = computed;
    this.#failures = [...failures];
  }

  get processed(): number {
    return this.#processed;
  }

  async processBatch(batch: readonly InputLine[]): Promise<void> {
    await this.#predictAndCount(batch);
    this.#processed += batch.length;
    await this.#options.state.save({
      asked: this.#processed,
      cached: this.#cached,
      computed: this.#computed,
      failures: this.#failures,
    });
  }

  describeProgress(perSecond: number): string {
    const { length } = this.#options.inputs;
    return `${this.#processed} of ${length} (${((100 * this.#processed) / length).toFixed(1)} %), ${perSecond} per second, ${this.#failures.length} failed`;
  }

  report(): PrecomputeReport {
    return {
      asked: this.#processed,
      cached: this.#cached,
      computed: this.#computed,
      failed: this.#failures.length,
      hitShare: this.#processed === 0 ? 0 : this.#cached / this.#processed,
      failures: this.#failures,
    };
  }

  /** A rejected batch is sent again input by input, so that one invalid input does not fail the others. */
  async #predictAndCount(batch: readonly InputLine[]): Promise<void> {
    const result = await this.#predictWithRetries(batch);
    if (result.kind === "answered") {
      this.#cached += batch.length - result.computed;
      this.#computed += result.computed - result.degraded.length;
      for (const index of result.degraded)
        this.#failures.push({
          line: batch[index]?.line ?? 0,
          code: "degraded",
          detail: DEGRADED_DETAIL,
        });
    } else if (batch.length > 1) {
      for (const input of batch) await this.#predictAndCount([input]);
    } else {
      for (const { line } of batch)
        this.#failures.push({ line, code: result.code, detail: result.detail });
    }
  }

  async #predictWithRetries(batch: readonly InputLine[]): Promise<FinalBatchResult> {
    const { inputs, predictBatch, log } = this.#options;
    let backoffMs = MIN_BACKOFF_MS;
    for (let attempt = 1; ; attempt++) {
      const result = await predictBatch(batch.map(({ input }) => input));
      if (result.kind !== "retry-later") return result;
      if (attempt === MAX_ATTEMPTS)
        throw cliErrors.precomputeStopped(
          result.code,
          result.detail,
          this.#processed,
          inputs.length,
        );
      const waitMs = Math.min(Math.max(result.retryAfterMs ?? 0, backoffMs), MAX_BACKOFF_MS);
      log(`${result.code}: ${result.detail} Retrying in ${waitMs / 1_000} s.`);
      await pause(this.#clock, waitMs);
      backoffMs = Math.min(2 * backoffMs, MAX_BACKOFF_MS);
    }
  }
}
