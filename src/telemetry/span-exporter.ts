// Spans on their way to a collector: gathered for a second, sent after the response, and dropped rather than waited for.
//
// At the edge nothing runs between requests, and a timer ends with the request that has set it: each time one of them takes
// the sending over, and another one does where the platform has ended that one without a word.

import type { Clock } from "../core/clock.ts";
import { reasonOf } from "../core/errors.ts";
import type { WaitUntil } from "../core/tracing.ts";
import type { EndedSpan } from "./otlp.ts";

export interface SpanExporter {
  add(spans: readonly EndedSpan[], waitUntil: WaitUntil): void;
  /** Sends what waits. Never rejects. */
  flush(): Promise<void>;
}

/** `full`: they came quicker than they could be sent. `unsent`: the collector did not take them. */
export type SpanDropReason = "full" | "unsent";

export interface SpanExporterOptions {
  /** @returns how many of them the collector has refused @throws where it took none */
  readonly send: (spans: readonly EndedSpan[]) => Promise<number>;
  readonly clock: Clock;
  readonly onDropped: (reason: SpanDropReason, spans: number, cause?: string) => void;
}

const EXPORT_DELAY_MS = 1_000;
/** Of one message, and so many of them wait at most. */
const MAX_EXPORT_BATCH_SPANS = 512;
const MAX_QUEUED_SPANS = 2_048;
const MAX_CONCURRENT_EXPORTS = 2;
/** Longer than sending may take: after that the platform has ended it. */
const EXPORT_ABANDONED_AFTER_MS = 10_000;

export function createSpanExporter({ send, clock, onDropped }: SpanExporterOptions): SpanExporter {
  const waiting: EndedSpan[] = [];
  /** When somebody has promised to send what waits. */
  let dueAtMs = -Infinity;
  let sending: readonly { readonly startedAtMs: number }[] = [];

  async function flush(): Promise<void> {
    dueAtMs = -Infinity;
    sending = sending.filter(
      ({ startedAtMs }) => clock.now() - startedAtMs < EXPORT_ABANDONED_AFTER_MS,
    );
    if (waiting.length === 0 || sending.length >= MAX_CONCURRENT_EXPORTS) return;
    const spans = waiting.splice(0, MAX_EXPORT_BATCH_SPANS);
    const one = { startedAtMs: clock.now() };
    sending = [...sending, one];
    try {
      const refused = await send(spans);
      if (refused > 0) onDropped("unsent", refused, "the collector refused them");
    } catch (error) {
      onDropped("unsent", spans.length, reasonOf(error));
    } finally {
      sending = sending.filter((other) => other !== one);
    }
  }

  const later = () => new Promise<void>((resolve) => void clock.setTimer(resolve, EXPORT_DELAY_MS));

  return {
    add(spans, waitUntil) {
      const taken = spans.slice(0, MAX_QUEUED_SPANS - waiting.length);
      waiting.push(...taken);
      if (taken.length < spans.length) onDropped("full", spans.length - taken.length);
      if (waiting.length >= MAX_EXPORT_BATCH_SPANS) waitUntil(flush());
      else if (clock.now() > dueAtMs + EXPORT_DELAY_MS) {
        dueAtMs = clock.now() + EXPORT_DELAY_MS;
        waitUntil(later().then(flush));
      }
    },

    async flush() {
      while (waiting.length > 0 && sending.length < MAX_CONCURRENT_EXPORTS) await flush();
    },
  };
}
