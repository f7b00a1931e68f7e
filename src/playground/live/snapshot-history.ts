// The last snapshots: what happened in the last minute, and from poll to poll.

import type { MetricsSnapshot } from "../../protocol/metrics-snapshot.ts";
import { sumByLabel, subtractSnapshots } from "./metric-deltas.ts";

const MAX_SNAPSHOTS = 31;
const MINUTE_MS = 60_000;

export interface AnswerRates {
  /** By tier; "cache" for answers that no tier computed. */
  readonly perSecond: ReadonlyMap<string, number>;
}

export interface SnapshotHistory {
  add(snapshot: MetricsSnapshot): void;
  readonly latest: MetricsSnapshot | undefined;
  computeLastMinute(): MetricsSnapshot | undefined;
  /** From poll to poll, the oldest first. */
  computeRates(): AnswerRates[];
}

export const CACHE_SERIES_NAME = "from a cache";

export function createSnapshotHistory(): SnapshotHistory {
  let kept: MetricsSnapshot[] = [];
  return {
    add(snapshot) {
      if (snapshot.takenAtMs > (kept.at(-1)?.takenAtMs ?? 0))
        kept = [...kept, snapshot].slice(-MAX_SNAPSHOTS);
    },
    get latest() {
      return kept.at(-1);
    },
    computeLastMinute() {
      const newest = kept.at(-1);
      const oldest = kept.find(
        ({ takenAtMs }) => takenAtMs >= (newest?.takenAtMs ?? 0) - MINUTE_MS,
      );
      return newest && oldest && subtractSnapshots(oldest, newest);
    },
    computeRates: () =>
      kept.slice(1).map((after, index) => ratesBetween(kept[index] ?? after, after)),
  };
}

function ratesBetween(before: MetricsSnapshot, after: MetricsSnapshot): AnswerRates {
  const seconds = Math.max(0.001, (after.takenAtMs - before.takenAtMs) / 1_000);
  const happened = subtractSnapshots(before, after);
  const results = sumByLabel(happened, "edgetier_cache_results_total", "result");
  const cached = ["l1", "cdn", "l2", "held"].reduce(
    (sum, layer) => sum + (results.get(layer) ?? 0),
    0,
  );
  const counts = new Map([
    ...sumByLabel(happened, "edgetier_answers_total", "tier"),
    [CACHE_SERIES_NAME, cached] as const,
  ]);
  return { perSecond: new Map([...counts].map(([tier, count]) => [tier, count / seconds])) };
}
