// The Durable Object that sums up what isolates count (src/telemetry/metrics-aggregate.ts), and keeps it.
//
// A batch is acknowledged when it is stored: an isolate sends it again otherwise. All batches of a while are stored together, as one text
// in as few rows as it fits in, since rows are what is billed: four writes a second at most, however many isolates there are.

import { DurableObject } from "cloudflare:workers";
import {
  type MetricsAggregate,
  type MetricsAggregateState,
  type MetricsBatch,
  createMetricsAggregate,
} from "../../src/telemetry/metrics-aggregate.ts";
import type { Series } from "../../src/telemetry/series-table.ts";

const MAX_SERIES = 10_000;
const STORE_EVERY_MS = 250;
/** A row holds 2 MB. */
const MAX_PART_CHARACTERS = 1_000_000;
/** Of the text; another one is not read. */
const STATE_FORMAT = 1;

export class MetricsAggregator extends DurableObject {
  readonly #aggregate: MetricsAggregate;
  #isStored = true;
  #storing: Promise<void> | undefined;

  constructor(...[ctx, env]: ConstructorParameters<typeof DurableObject>) {
    super(ctx, env);
    ctx.storage.sql.exec(
      "CREATE TABLE IF NOT EXISTS state (part INTEGER PRIMARY KEY, text TEXT NOT NULL)",
    );
    const parts = ctx.storage.sql.exec("SELECT text FROM state ORDER BY part").toArray();
    this.#aggregate = createMetricsAggregate(
      MAX_SERIES,
      parseState(parts.map(({ text }) => String(text)).join("")),
    );
  }

  async report(batch: MetricsBatch): Promise<void> {
    this.#aggregate.accept(batch, Date.now());
    this.#isStored = false;
    await (this.#storing ??= this.#storeSoon());
  }

  /** What is told is stored before: a counter that went back a little would look to Prometheus as if it had begun anew. */
  read(): Series[] {
    this.#store();
    return this.#aggregate.listSeries();
  }

  async #storeSoon(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, STORE_EVERY_MS));
    this.#storing = undefined;
    this.#store();
  }

  /** The platform holds answers back until it is on disk. */
  #store(): void {
    if (this.#isStored) return;
    const text = JSON.stringify({ format: STATE_FORMAT, ...this.#aggregate.exportState() });
    const { storage } = this.ctx;
    storage.transactionSync(() => {
      let part = 0;
      for (let at = 0; at < text.length; at += MAX_PART_CHARACTERS) {
        storage.sql.exec(
          "INSERT OR REPLACE INTO state (part, text) VALUES (?, ?)",
          part++,
          text.slice(at, at + MAX_PART_CHARACTERS),
        );
      }
      storage.sql.exec("DELETE FROM state WHERE part >= ?", part);
    });
    this.#isStored = true;
  }
}

/** @param text of this class's own writing */
function parseState(text: string): MetricsAggregateState | undefined {
  if (text === "") return undefined;
  const state: MetricsAggregateState & { readonly format: number } = JSON.parse(text);
  return state.format === STATE_FORMAT ? state : undefined;
}
