// Load record: stores the outcome of each call of an open loop in columns, so that millions fit into memory.

import type { Reply } from "./http-sender.ts";
import type { LoopEvents } from "./open-loop.ts";

/** The facts that a response states about itself. */
export interface ParsedReply {
  /** Error of the response; absent on success. */
  readonly error?: { readonly code: string; readonly detail: string };
  readonly tier?: string | undefined;
  readonly cache?: string | undefined;
  readonly isDegraded: boolean;
  readonly phases: readonly (readonly [phase: string, ms: number])[];
}

export const CALL_OUTCOMES = {
  unsent: 0,
  inFlight: 1,
  answered: 2,
  failed: 3,
  timedOut: 4,
} as const;

/** Maximum number of distinct names. Further names count as `other`, so that no server can exhaust memory. */
const MAX_NAMES = 255;
const OTHER = "other";
const MAX_EXAMPLE_CHARACTERS = 200;
const MAX_PHASES = 16;

class NameIndex {
  readonly #numbers = new Map<string, number>();

  /** Returns the name's number, from 1. */
  numberOf(name: string): number {
    const known = this.#numbers.get(name);
    if (known !== undefined) return known;
    if (this.#numbers.size === MAX_NAMES - 1 && name !== OTHER) return this.numberOf(OTHER);
    this.#numbers.set(name, this.#numbers.size + 1);
    return this.#numbers.size;
  }

  entries(): IterableIterator<[name: string, number: number]> {
    return this.#numbers.entries();
  }
}

/** A column with an optional name per call. */
export class NameColumn {
  readonly #names = new NameIndex();
  readonly #numbers: Uint8Array;

  constructor(calls: number) {
    this.#numbers = new Uint8Array(calls);
  }

  set(index: number, name: string): void {
    this.#numbers[index] = this.#names.numberOf(name);
  }

  /** Counts names over the selected calls, most frequent first. */
  count(
    isCounted: (index: number) => boolean,
  ): { readonly name: string; readonly count: number }[] {
    const byNumber = new Uint32Array(MAX_NAMES + 1);
    for (let index = 0; index < this.#numbers.length; index++)
      if (isCounted(index))
        byNumber[this.#numbers[index] ?? 0] = (byNumber[this.#numbers[index] ?? 0] ?? 0) + 1;
    const counted = [...this.#names.entries()].map(([name, number]) => ({
      name,
      count: byNumber[number] ?? 0,
    }));
    return counted.filter(({ count }) => count > 0).toSorted((a, b) => b.count - a.count);
  }
}

export class LoadRecord implements LoopEvents {
  readonly dueMs: Float64Array;
  readonly sendLagMs: Float32Array;
  /** Latency of calls that have ended. */
  readonly latencyMs: Float64Array;
  readonly connectionWaitMs: Float32Array;
  readonly outcome: Uint8Array;
  readonly degraded: Uint8Array;
  readonly tiers: NameColumn;
  readonly caches: NameColumn;
  readonly errors: NameColumn;
  readonly examples = new Map<string, string>();
  /** Durations by phase. NaN for responses without the phase. */
  readonly phasesMs = new Map<string, Float32Array>();
  readonly #parse: (reply: Reply) => ParsedReply;

  /** @param dueMs due times from the start of the loop */
  constructor(dueMs: Float64Array, parse: (reply: Reply) => ParsedReply) {
    const { length } = dueMs;
    this.dueMs = dueMs;
    this.#parse = parse;
    this.sendLagMs = new Float32Array(length);
    this.latencyMs = new Float64Array(length);
    this.connectionWaitMs = new Float32Array(length);
    this.outcome = new Uint8Array(length);
    this.degraded = new Uint8Array(length);
    this.tiers = new NameColumn(length);
    this.caches = new NameColumn(length);
    this.errors = new NameColumn(length);
  }

  get calls(): number {
    return this.dueMs.length;
  }

  sent(index: number, lagMs: number): void {
    this.outcome[index] = CALL_OUTCOMES.inFlight;
    this.sendLagMs[index] = Math.max(0, lagMs);
  }

  answered(index: number, latencyMs: number, reply: Reply): void {
    const { error, tier, cache, isDegraded, phases } = this.#parse(reply);
    this.latencyMs[index] = latencyMs;
    this.connectionWaitMs[index] = reply.connectionWaitMs;
    if (error !== undefined) return this.#fail(index, error.code, error.detail);
    this.outcome[index] = CALL_OUTCOMES.answered;
    this.degraded[index] = isDegraded ? 1 : 0;
    if (tier !== undefined) this.tiers.set(index, tier);
    if (cache !== undefined) this.caches.set(index, cache);
    for (const [phase, ms] of phases) this.#phase(index, phase, ms);
  }

  failed(index: number, latencyMs: number, error: unknown): void {
    this.latencyMs[index] = latencyMs;
    if (error instanceof DOMException && error.name === "TimeoutError") {
      this.outcome[index] = CALL_OUTCOMES.timedOut;
      return;
    }
    const code = error instanceof Error && "code" in error ? String(error.code) : "no answer";
    this.#fail(index, code, error instanceof Error ? error.message : String(error));
  }

  #fail(index: number, code: string, detail: string): void {
    this.outcome[index] = CALL_OUTCOMES.failed;
    this.errors.set(index, code);
    if (!this.examples.has(code) && this.examples.size < MAX_NAMES)
      this.examples.set(code, detail.slice(0, MAX_EXAMPLE_CHARACTERS));
  }

  #phase(index: number, phase: string, ms: number): void {
    let column = this.phasesMs.get(phase);
    if (column === undefined) {
      if (this.phasesMs.size === MAX_PHASES) return;
      this.phasesMs.set(phase, (column = new Float32Array(this.calls).fill(Number.NaN)));
    }
    column[index] = ms;
  }
}
