// A part of the local system: where it listens, how it is stopped, and how one learns that it died.

import { setTimeout as sleep } from "node:timers/promises";

export interface LocalService {
  readonly name: string;
  readonly url: string;
  /** Resolves, saying how, if the part ends without having been stopped. */
  readonly died: Promise<string>;
  /** Resolves when nothing of it is left. May be called again. */
  stop(): Promise<void>;
}

const WATCH_INTERVAL_MS = 3_000;
const RESPONSE_TIMEOUT_MS = 10_000;
const MAX_FAILURES = 2;

/**
 * Watches a part whose process cannot be observed by asking it for any answer. Miniflare starts a workerd that was
 * killed again by itself (measured); this is for one that it cannot bring back.
 * @param stopped ends the watch.
 */
export function watchLiveness(url: string, stopped: AbortSignal): Promise<string> {
  return new Promise((resolve) => {
    void (async () => {
      for (let failures = 0; failures < MAX_FAILURES;) {
        await sleep(WATCH_INTERVAL_MS, undefined, { ref: false });
        if (stopped.aborted) return;
        failures = (await isResponding(url)) ? 0 : failures + 1;
      }
      if (!stopped.aborted) resolve("it no longer answers");
    })();
  });
}

async function isResponding(url: string): Promise<boolean> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(RESPONSE_TIMEOUT_MS) });
    await response.body?.cancel();
    return true;
  } catch {
    return false;
  }
}
