// Metrics aggregator: a Durable Object that sums the metrics of all isolates (src/telemetry/metrics-aggregate.ts) and stores them.
//
// A batch is acknowledged after it is stored; otherwise the isolate sends it again. The platform bills rows, so the batches of
// 250 ms are stored together as one text in few rows. This makes at most four writes a second for any number of isolates.

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
/** A row holds at most 2 MB. */
const MAX_PART_CHARACTERS = 1_000_000;
/** Version of the stored format; a text of another version is ignored. */
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

  /** Values are stored before they are exposed; otherwise Prometheus could see a decrease and assume a counter reset. */
  read(): Series[] {
    this.#store();
    return this.#aggregate.listSeries();
  }

  async #storeSoon(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, STORE_EVERY_MS));
    this.#storing = undefined;
    this.#store();
  }

  /** The platform delays responses until the write is on disk. */
  #store(): void {
    if (this.#isStored) return;
    const text = JSON.stringify({ format: STATE_FORMAT, ...this.#aggregate.exportState() });
    const { storage } = this.ctx;
    storage.transactionSync(() => {
      let part = 0;
      for (let start = 0; start < text.length; start += MAX_PART_CHARACTERS) {
        storage.sql.exec(
          "INSERT OR REPLACE INTO state (part, text) VALUES (?, ?)",
          part++,
          text.slice(start, start + MAX_PART_CHARACTERS),
        );
      }
      storage.sql.exec("DELETE FROM state WHERE part >= ?", part);
    });
    this.#isStored = true;
  }
}

/** @param text written by `#store` */
function parseState(text: string): MetricsAggregateState | undefined {
  if (text === "") return undefined;
  const state: MetricsAggregateState & { readonly format: number } = JSON.parse(text);
  return state.format === STATE_FORMAT ? state : undefined;
}
