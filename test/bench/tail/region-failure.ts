// The preferred region dies under load, and is restarted.
import { setTimeout as sleep } from "node:timers/promises";
import { quantile } from "../../../src/toolchain/evaluate/latency.ts";
import { createSender, openLoop } from "../lib/checked-load.ts";
import type { Random } from "../lib/random.ts";
import { createPredictCall, recordOutcome } from "./calls.ts";
import type { TailSystem } from "./tail-system.ts";

const KILLED_AFTER_MS = 8_000;
const OUTAGE_MS = 8_000;
const SECONDS = 40;

export interface RegionFailureResult {
  readonly n: number;
  readonly errors: number;
  readonly degraded: number;
  /** From the death to the last answer that was no full one. */
  readonly degradedForMs: number;
  /** From when it answers again to its first call. */
  readonly usedAgainAfterMs: number;
  readonly p99Ms: number;
}

export async function measureRegionFailure(
  system: TailSystem,
  queries: readonly string[],
  { rate, random }: { readonly rate: number; readonly random: Random },
): Promise<RegionFailureResult> {
  const edge = await system.startEdge();
  const send = createSender(edge.url);
  const counts = { answers: 0, degraded: 0, errors: 0 };
  let lastBadAtMs: number | undefined;
  const draw = (count: number) =>
    Array.from({ length: count }, () => createPredictCall(random.pick(queries)));
  try {
    await openLoop(send, draw(200), rate, random, () => {});
    const busiest = [...system.regions.values()].toSorted(
      (a, b) => b.proxy.receivedRequests.length - a.proxy.receivedRequests.length,
    )[0];
    if (busiest === undefined) throw new Error("there is no region");
    const load = openLoop(send, draw(SECONDS * rate), rate, random, (reply) => {
      if (recordOutcome(reply, counts) !== "full") lastBadAtMs = performance.now();
    });
    await sleep(KILLED_AFTER_MS);
    const diedAtMs = performance.now();
    await busiest.stop();
    await sleep(OUTAGE_MS);
    await busiest.start();
    const revivedAtMs = performance.now();
    busiest.proxy.clearHistory();
    const { latenciesMs } = await load;
    const firstCall = busiest.proxy.receivedRequests.find(
      ({ path, atMs }) => path.endsWith("/infer") && atMs >= revivedAtMs,
    );
    return {
      n: counts.answers,
      errors: counts.errors,
      degraded: counts.degraded,
      degradedForMs: lastBadAtMs === undefined ? 0 : Math.max(0, lastBadAtMs - diedAtMs),
      usedAgainAfterMs: firstCall === undefined ? Number.NaN : firstCall.atMs - revivedAtMs,
      p99Ms: quantile(latenciesMs, 0.99),
    };
  } finally {
    send.close();
    await edge.stop();
  }
}
