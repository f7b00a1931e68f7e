// Spans on their way to a collector: gathered for a second, sent after the response, and dropped rather than waited for.
//
// At the edge nothing runs between requests, and a timer ends with the request that has set it: each time one of them takes
// the sending over, and another one does where the platform has ended that one without a word.

import type { Clock } from "../core/clock.ts";
import { reasonOf } from "../core/errors.ts";
import type { WaitUntil } from "../core/span.ts";
import type { EndedSpan } from "./otlp.ts";

export interface SpanExporter {
  add(spans: readonly EndedSpan[], waitUntil: WaitUntil): void;
  /** Sends what waits. Never rejects. */
  flush(): Promise<void>;
}

/** `full`: they came quicker than they could be sent. `unsent`: the collector did not take them. */
export type DropReason = "full" | "unsent";

export interface SpanExporterOptions {
  /** @returns how many of them the collector has refused @throws where it took none */
  readonly send: (spans: readonly EndedSpan[]) => Promise<number>;
  readonly clock: Clock;
  readonly onDropped: (reason: DropReason, spans: number, cause?: string) => void;
}

const GATHERED_FOR_MS = 1_000;
/** Of one message, and so many of them wait at most. */
const MAX_SENT_SPANS = 512;
const MAX_WAITING_SPANS = 2_048;
const MAX_SENDING = 2;
/** Longer than sending may take: after that the platform has ended it. */
const GIVEN_UP_AFTER_MS = 10_000;

export function createSpanExporter({ send, clock, onDropped }: SpanExporterOptions): SpanExporter {
  const waiting: EndedSpan[] = [];
  /** When somebody has promised to send what waits. */
  let dueAtMs = -Infinity;
  let sending: readonly { readonly startedAtMs: number }[] = [];

  async function flush(): Promise<void> {
    dueAtMs = -Infinity;
    sending = sending.filter(({ startedAtMs }) => clock.now() - startedAtMs < GIVEN_UP_AFTER_MS);
    if (waiting.length === 0 || sending.length >= MAX_SENDING) return;
    const spans = waiting.splice(0, MAX_SENT_SPANS);
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

  const later = () => new Promise<void>((resolve) => void clock.setTimer(resolve, GATHERED_FOR_MS));

  return {
    add(spans, waitUntil) {
      const taken = spans.slice(0, MAX_WAITING_SPANS - waiting.length);
      waiting.push(...taken);
      if (taken.length < spans.length) onDropped("full", spans.length - taken.length);
      if (waiting.length >= MAX_SENT_SPANS) waitUntil(flush());
      else if (clock.now() > dueAtMs + GATHERED_FOR_MS) {
        dueAtMs = clock.now() + GATHERED_FOR_MS;
        waitUntil(later().then(flush));
      }
    },

    async flush() {
      while (waiting.length > 0 && sending.length < MAX_SENDING) await flush();
    },
  };
}
