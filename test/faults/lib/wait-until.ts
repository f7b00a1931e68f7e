// Waits for what a system does in its own time.
import { setTimeout as sleep } from "node:timers/promises";

/** @returns after how many milliseconds it was so; undefined where it was not within the time */
export async function waitUntil(
  isSo: () => Promise<boolean> | boolean,
  withinMs: number,
  everyMs = 20,
): Promise<number | undefined> {
  const startedAtMs = performance.now();
  while (performance.now() - startedAtMs < withinMs) {
    if (await isSo()) return performance.now() - startedAtMs;
    await sleep(everyMs);
  }
  return undefined;
}

export const delay = (ms: number): Promise<void> => sleep(ms);
