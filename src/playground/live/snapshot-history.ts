// Snapshot history: differences over the last minute, and rates between polls.

import type { MetricsSnapshot } from "../../protocol/metrics-snapshot.ts";
import { sumByLabel, subtractSnapshots } from "./metric-deltas.ts";

const MAX_SNAPSHOTS = 31;
const MINUTE_MS = 60_000;

export interface AnswerRates {
  /** Outputs per second by tier, with CACHE_SERIES_NAME for cached ones. */
  readonly perSecond: ReadonlyMap<string, number>;
}

export interface SnapshotHistory {
  add(snapshot: MetricsSnapshot): void;
  readonly latest: MetricsSnapshot | undefined;
  computeLastMinute(): MetricsSnapshot | undefined;
  /** Rates between consecutive polls, oldest first. */
  computeRates(): AnswerRates[];
}

export const CACHE_SERIES_NAME = "from a cache";

export function createSnapshotHistory(): SnapshotHistory {
  let snapshots: MetricsSnapshot[] = [];
  return {
    add(snapshot) {
      if (snapshot.takenAtMs > (snapshots.at(-1)?.takenAtMs ?? 0))
        snapshots = [...snapshots, snapshot].slice(-MAX_SNAPSHOTS);
    },
    get latest() {
      return snapshots.at(-1);
    },
    computeLastMinute() {
      const newest = snapshots.at(-1);
      const oldest = snapshots.find(
        ({ takenAtMs }) => takenAtMs >= (newest?.takenAtMs ?? 0) - MINUTE_MS,
      );
      return newest && oldest && subtractSnapshots(oldest, newest);
    },
    computeRates: () =>
      snapshots
        .slice(1)
        .map((after, index) => computeRatesBetween(snapshots[index] ?? after, after)),
  };
}

function computeRatesBetween(before: MetricsSnapshot, after: MetricsSnapshot): AnswerRates {
  const seconds = Math.max(0.001, (after.takenAtMs - before.takenAtMs) / 1_000);
  const delta = subtractSnapshots(before, after);
  const results = sumByLabel(delta, "edgetier_cache_results_total", "result");
  const cached = ["l1", "cdn", "l2", "held"].reduce(
    (sum, layer) => sum + (results.get(layer) ?? 0),
    0,
  );
  const counts = new Map([
    ...sumByLabel(delta, "edgetier_answers_total", "tier"),
    [CACHE_SERIES_NAME, cached] as const,
  ]);
  return { perSecond: new Map([...counts].map(([tier, count]) => [tier, count / seconds])) };
}
