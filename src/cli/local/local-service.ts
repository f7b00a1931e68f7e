// Local service: the interface of a service of the local system, and the liveness check for services without a process.

import { setTimeout as sleep } from "node:timers/promises";

export interface LocalService {
  readonly name: string;
  readonly url: string;
  /** Resolves with the reason if the service ends without `stop`. */
  readonly died: Promise<string>;
  /** Resolves when the service has released everything. May be called again. */
  stop(): Promise<void>;
}

const WATCH_INTERVAL_MS = 3_000;
const RESPONSE_TIMEOUT_MS = 10_000;
const MAX_FAILURES = 2;

/**
 * Watches a service through requests, because its process cannot be observed. Miniflare restarts a killed workerd by itself
 * (measured), so this detects a workerd that it cannot restart.
 * @param stopped ends the watch
 */
export function watchLiveness(url: string, stopped: AbortSignal): Promise<string> {
  return new Promise((resolve) => {
    void (async () => {
      for (let failures = 0; failures < MAX_FAILURES;) {
        await sleep(WATCH_INTERVAL_MS, undefined, { ref: false });
        if (stopped.aborted) return;
        failures = (await isResponding(url)) ? 0 : failures + 1;
      }
      if (!stopped.aborted) resolve("it no longer responds");
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
