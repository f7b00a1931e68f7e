// A part of the local system: where it listens, how it is stopped, and how one learns that it died.

import { setTimeout as sleep } from "node:timers/promises";

export interface Part {
  readonly name: string;
  readonly url: string;
  /** Resolves, saying how, if the part ends without having been stopped. */
  readonly died: Promise<string>;
  /** Resolves when nothing of it is left. May be called again. */
  stop(): Promise<void>;
}

const WATCH_EVERY_MS = 3_000;
const ANSWER_WITHIN_MS = 10_000;
const FAILURES_TO_BE_DEAD = 2;

/**
 * Watches a part whose process cannot be observed by asking it for any answer. Miniflare starts a workerd that was
 * killed again by itself (measured); this is for one that it cannot bring back.
 * @param stopped ends the watch.
 */
export function diesWhenSilent(url: string, stopped: AbortSignal): Promise<string> {
  return new Promise((resolve) => {
    void (async () => {
      for (let failures = 0; failures < FAILURES_TO_BE_DEAD;) {
        await sleep(WATCH_EVERY_MS, undefined, { ref: false });
        if (stopped.aborted) return;
        failures = (await answers(url)) ? 0 : failures + 1;
      }
      if (!stopped.aborted) resolve("it no longer answers");
    })();
  });
}

async function answers(url: string): Promise<boolean> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(ANSWER_WITHIN_MS) });
    await response.body?.cancel();
    return true;
  } catch {
    return false;
  }
}
