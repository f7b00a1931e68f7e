// The same load on an edge that reports what it counts and on one that counts nothing, in turns.
import { join } from "node:path";
import { mkdtemp } from "node:fs/promises";
import { quantile } from "../../../src/build/judge/latency.ts";
import { type BareEdge, startBareEdge, startCountedEdge } from "../../../src/cli/local/bare-edge.ts";
import { type Call, closedLoop, createSender, openLoop, type Send, summarise } from "../lib/load.ts";
import { cpuMsOf } from "../lib/process-cpu.ts";
import { createRandom, type Random } from "../lib/random.ts";
import { rounded } from "../lib/report.ts";
import { callsOf, requireOk, type Result, type World } from "./world.ts";

const WARM_UP_SECONDS = 4;
const SECONDS_A_TURN = 1;
const CONNECTIONS = 8;

interface Side {
  readonly edge: BareEdge;
  readonly send: Send & { close(): void };
  readonly perSecond: number[];
  readonly cpuMsPerRequest: number[];
  readonly latenciesMs: number[];
}

export async function compareCost(world: World, { turns, rate }: { readonly turns: number; readonly rate: number }): Promise<Result> {
  const edges = [await startBareEdge(world.upload, world.variables), await startCountedEdge(world.upload, world.variables, { folder: await mkdtemp(join(world.folder, "metrics-")) })] as const;
  try {
    const random = createRandom(world.seed);
    const hits = await compare("L1 hit", edges, callsOf(world.seed), { turns, rate, random });
    const computed = await compare("edge tier, cache off", edges, callsOf(world.seed, "bypass"), { turns, rate: rate / 4, random });
    return {
      rows: [...hits.rows, ...computed.rows],
      figures: { hitRateRatio: hits.rateRatio, hitCpuRatio: hits.cpuRatio, hitP99Ratio: hits.p99Ratio, computedRateRatio: computed.rateRatio, computedCpuRatio: computed.cpuRatio, computedP99Ratio: computed.p99Ratio },
    };
  } finally {
    for (const edge of edges) await edge.stop();
  }
}

async function compare(name: string, edges: readonly BareEdge[], calls: readonly Call[], { turns, rate, random }: { readonly turns: number; readonly rate: number; readonly random: Random }) {
  const sides = edges.map((edge): Side => ({ edge, send: createSender(edge.url, CONNECTIONS), perSecond: [], cpuMsPerRequest: [], latenciesMs: [] }));
  for (const { send } of sides) await closedLoop(send, () => random.pick(calls), CONNECTIONS, WARM_UP_SECONDS, requireOk);
  for (let turn = 0; turn < turns; turn++) {
    // Whoever comes second may find the machine otherwise: so they take turns at that, too.
    for (const side of turn % 2 === 0 ? sides : sides.toReversed()) await takeTurn(side, calls, rate, random);
  }
  for (const { send } of sides) send.close();
  const [without, counted] = sides as [Side, Side];
  const ratioOf = (of: (side: Side) => readonly number[]) => rounded(median(of(counted).map((value, turn) => value / (of(without)[turn] ?? Number.NaN))));
  const rowOf = (which: string, { perSecond, cpuMsPerRequest, latenciesMs }: Side) => ({ case: `${name}, ${which}`, requestsPerSecond: rounded(median(perSecond)), cpuMsPerRequest: rounded(median(cpuMsPerRequest)), ...summarise(latenciesMs) });
  return {
    rows: [rowOf("nothing counted", without), rowOf("metrics", counted)],
    rateRatio: ratioOf(({ perSecond }) => perSecond),
    cpuRatio: ratioOf(({ cpuMsPerRequest }) => cpuMsPerRequest),
    p99Ratio: rounded(summarise(counted.latenciesMs).p99Ms / summarise(without.latenciesMs).p99Ms),
  };
}

/** As many as there can be, then as many as come at a fixed rate. */
async function takeTurn({ edge, send, perSecond, cpuMsPerRequest, latenciesMs }: Side, calls: readonly Call[], rate: number, random: Random): Promise<void> {
  const before = (await cpuMsOf(edge.pid)) ?? Number.NaN;
  const rps = await closedLoop(send, () => random.pick(calls), CONNECTIONS, SECONDS_A_TURN, requireOk);
  perSecond.push(rps);
  cpuMsPerRequest.push((((await cpuMsOf(edge.pid)) ?? Number.NaN) - before) / (rps * SECONDS_A_TURN));
  const drawn = Array.from({ length: Math.round(rate * SECONDS_A_TURN) }, () => random.pick(calls));
  latenciesMs.push(...(await openLoop(send, drawn, rate, random, requireOk)).latenciesMs);
}

const median = (values: readonly number[]): number => quantile(values, 0.5);
