// The last snapshots: what happened in the last minute, and from poll to poll.

import type { MetricsSnapshot } from "../../protocol/metrics.ts";
import { countsBy, difference } from "./differences.ts";

const KEPT = 31;
const MINUTE_MS = 60_000;

export interface Rates {
  /** By tier; "cache" for answers that no tier computed. */
  readonly perSecond: ReadonlyMap<string, number>;
}

export interface History {
  add(snapshot: MetricsSnapshot): void;
  readonly newest: MetricsSnapshot | undefined;
  lastMinute(): MetricsSnapshot | undefined;
  /** From poll to poll, the oldest first. */
  rates(): Rates[];
}

export const FROM_CACHE = "from a cache";

export function createHistory(): History {
  let kept: MetricsSnapshot[] = [];
  return {
    add(snapshot) {
      if (snapshot.takenAtMs > (kept.at(-1)?.takenAtMs ?? 0))
        kept = [...kept, snapshot].slice(-KEPT);
    },
    get newest() {
      return kept.at(-1);
    },
    lastMinute() {
      const newest = kept.at(-1);
      const oldest = kept.find(
        ({ takenAtMs }) => takenAtMs >= (newest?.takenAtMs ?? 0) - MINUTE_MS,
      );
      return newest && oldest && difference(oldest, newest);
    },
    rates: () => kept.slice(1).map((after, index) => ratesBetween(kept[index] ?? after, after)),
  };
}

function ratesBetween(before: MetricsSnapshot, after: MetricsSnapshot): Rates {
  const seconds = Math.max(0.001, (after.takenAtMs - before.takenAtMs) / 1_000);
  const happened = difference(before, after);
  const results = countsBy(happened, "edgetier_cache_results_total", "result");
  const cached = ["l1", "cdn", "l2", "held"].reduce(
    (sum, layer) => sum + (results.get(layer) ?? 0),
    0,
  );
  const counts = new Map([
    ...countsBy(happened, "edgetier_answers_total", "tier"),
    [FROM_CACHE, cached] as const,
  ]);
  return { perSecond: new Map([...counts].map(([tier, count]) => [tier, count / seconds])) };
}
