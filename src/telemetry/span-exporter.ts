// Span exporter: collects spans for a second and sends them after the response. Spans are dropped if the queue is full.
//
// At the edge, no code runs between requests, and a timer ends with the request that set it. One request at a time is
// responsible for sending. Another one takes over if the platform terminated the first without notice.

import type { Clock } from "../core/clock.ts";
import { reasonOf } from "../core/errors.ts";
import type { WaitUntil } from "../core/tracing.ts";
import type { EndedSpan } from "./otlp.ts";

export interface SpanExporter {
  add(spans: readonly EndedSpan[], waitUntil: WaitUntil): void;
  /** Sends the queued spans. Never rejects. */
  flush(): Promise<void>;
}

/** `full`: spans arrived faster than they could be sent. `unsent`: the collector did not accept them. */
export type SpanDropReason = "full" | "unsent";

export interface SpanExporterOptions {
  /**
   * Sends spans to the collector.
   * @returns number of spans that the collector rejected
   * @throws Error if it accepted none
   */
  readonly send: (spans: readonly EndedSpan[]) => Promise<number>;
  readonly clock: Clock;
  readonly onDropped: (reason: SpanDropReason, spans: number, cause?: string) => void;
}

const EXPORT_DELAY_MS = 1_000;
const MAX_EXPORT_BATCH_SPANS = 512;
const MAX_QUEUED_SPANS = 2_048;
const MAX_CONCURRENT_EXPORTS = 2;
/** Longer than the send timeout: an older export was terminated by the platform. */
const EXPORT_ABANDONED_AFTER_MS = 10_000;

export function createSpanExporter({ send, clock, onDropped }: SpanExporterOptions): SpanExporter {
  const queue: EndedSpan[] = [];
  /** Time at which a request has scheduled the next export. */
  let dueAtMs = -Infinity;
  let activeExports: readonly { readonly startedAtMs: number }[] = [];

  async function flush(): Promise<void> {
    dueAtMs = -Infinity;
    activeExports = activeExports.filter(
      ({ startedAtMs }) => clock.now() - startedAtMs < EXPORT_ABANDONED_AFTER_MS,
    );
    if (queue.length === 0 || activeExports.length >= MAX_CONCURRENT_EXPORTS) return;
    const spans = queue.splice(0, MAX_EXPORT_BATCH_SPANS);
    const thisExport = { startedAtMs: clock.now() };
    activeExports = [...activeExports, thisExport];
    try {
      const rejectedCount = await send(spans);
      if (rejectedCount > 0) onDropped("unsent", rejectedCount, "the collector rejected them");
    } catch (error) {
      onDropped("unsent", spans.length, reasonOf(error));
    } finally {
      activeExports = activeExports.filter((other) => other !== thisExport);
    }
  }

  const waitForDelay = () =>
    new Promise<void>((resolve) => void clock.setTimer(resolve, EXPORT_DELAY_MS));

  return {
    add(spans, waitUntil) {
      const accepted = spans.slice(0, MAX_QUEUED_SPANS - queue.length);
      queue.push(...accepted);
      if (accepted.length < spans.length) onDropped("full", spans.length - accepted.length);
      if (queue.length >= MAX_EXPORT_BATCH_SPANS) waitUntil(flush());
      else if (clock.now() > dueAtMs + EXPORT_DELAY_MS) {
        dueAtMs = clock.now() + EXPORT_DELAY_MS;
        waitUntil(waitForDelay().then(flush));
      }
    },

    async flush() {
      while (queue.length > 0 && activeExports.length < MAX_CONCURRENT_EXPORTS) await flush();
    },
  };
}
