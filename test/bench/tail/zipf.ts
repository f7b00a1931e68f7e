import { generateQueries } from "../../../src/cli/load/query-generator.ts";
// Queries drawn by Zipf's law: which layer answers them, and how quickly.
import { quantile } from "../../../src/toolchain/evaluate/latency.ts";
import { createSender, openLoop } from "../lib/checked-load.ts";
import { createZipf, type Random } from "../lib/random.ts";
import { createPredictCall } from "./calls.ts";
import type { TailSystem } from "./tail-system.ts";

const EXPONENT = 1;

export interface CacheLayerResult {
  readonly layer: string;
  readonly n: number;
  readonly share: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** From an empty cache on. */
export async function measureCacheLayers(
  system: TailSystem,
  {
    keys,
    n,
    rate,
    seed,
    random,
  }: {
    readonly keys: number;
    readonly n: number;
    readonly rate: number;
    readonly seed: number;
    readonly random: Random;
  },
): Promise<CacheLayerResult[]> {
  const edge = await system.startEdge();
  const send = createSender(edge.url);
  const byLayer = new Map<string, number[]>();
  try {
    const queries = generateQueries(keys, seed);
    const zipf = createZipf(random, keys, EXPONENT);
    const calls = Array.from({ length: n }, () => createPredictCall(queries[zipf()] ?? "", "use"));
    const layered = async (call: (typeof calls)[number]) => {
      const startedAtMs = performance.now();
      const reply = await send(call);
      const layer = String(reply.headers["x-edgetier-cache"]);
      byLayer.set(layer, [...(byLayer.get(layer) ?? []), performance.now() - startedAtMs]);
      return reply;
    };
    await openLoop(layered, calls, rate, random, ({ status, body }) => {
      if (status !== 200) throw new Error(`status ${status}: ${body}`);
    });
  } finally {
    send.close();
    await edge.stop();
  }
  return [...byLayer]
    .map(([layer, latenciesMs]) => ({
      layer,
      n: latenciesMs.length,
      share: latenciesMs.length / n,
      p50Ms: quantile(latenciesMs, 0.5),
      p99Ms: quantile(latenciesMs, 0.99),
    }))
    .toSorted((a, b) => b.n - a.n);
}
