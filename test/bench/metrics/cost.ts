import { mkdtemp } from "node:fs/promises";
// Metrics cost: puts the same load alternately on an edge with metrics and on one without. Two processes of the same program may
// differ by some percent for their lifetime (memory layout, compilation order), so several pairs are measured.
import { join } from "node:path";
import {
  type WorkerdEdge,
  startWorkerdEdge,
  startMetricsEdge,
} from "../../../src/cli/local/workerd-edge.ts";
import { quantile } from "../../../src/toolchain/evaluate/latency.ts";
import {
  type Call,
  closedLoop,
  createSender,
  openLoop,
  type Send,
  summarizeLatencies,
} from "../lib/checked-load.ts";
import { readProcessCpuMs } from "../lib/process-cpu.ts";
import { createRandom, type Random } from "../lib/random.ts";
import { roundToFourDigits } from "../lib/report.ts";
import {
  createCalls,
  assertOkReply,
  type MetricsBenchResult,
  type MetricsFixture,
} from "./metrics-fixture.ts";

const WARM_UP_SECONDS = 4;
const SECONDS_PER_TURN = 1;
const CONNECTIONS = 8;
const RESAMPLES = 2_000;

export interface CostOptions {
  /** Number of process pairs. */
  readonly pairs: number;
  /** Number of turns per process and kind of load. */
  readonly turns: number;
  /** Calls per second, for the latencies. */
  readonly rate: number;
}

/** The combined turns of one process. */
interface ProcessMeasurement {
  requests: number;
  seconds: number;
  cpuMs: number;
  readonly latenciesMs: number[];
}

interface Edges {
  readonly isBareFirst: boolean;
  /** Processes in the order in which they were started. */
  readonly all: readonly [WorkerdEdge, WorkerdEdge];
}

type Pair = readonly [without: ProcessMeasurement, counted: ProcessMeasurement];

export async function compareMetricsCost(
  fixture: MetricsFixture,
  { pairs, turns, rate }: CostOptions,
): Promise<MetricsBenchResult> {
  const random = createRandom(fixture.seed);
  const kinds = [
    { name: "L1 hit", figure: "hit", calls: createCalls(fixture.seed), rate, pairs: [] as Pair[] },
    {
      name: "edge tier, cache off",
      figure: "computed",
      calls: createCalls(fixture.seed, "bypass"),
      rate: rate / 4,
      pairs: [] as Pair[],
    },
  ];
  for (let pair = 0; pair < pairs; pair++) {
    console.error(`  cost: pair ${pair + 1} of ${pairs}`);
    const edges = await startPair(fixture, pair % 2 === 0);
    try {
      for (const kind of kinds)
        kind.pairs.push(await measure(edges, kind.calls, { turns, rate: kind.rate, random }));
    } finally {
      for (const edge of edges.all) await edge.stop();
    }
  }
  return {
    rows: kinds.flatMap(({ name, pairs: measured }) =>
      ["nothing counted", "metrics"].map((which, side) => ({
        case: `${name}, ${which}`,
        ...summary(measured.map((pair) => pair[side] as ProcessMeasurement)),
      })),
    ),
    figures: Object.assign(
      {},
      ...kinds.map(({ figure, pairs: measured }) => ratios(figure, measured, random)),
    ),
  };
}

/** The order of starting may favor one process, so it alternates. */
async function startPair(fixture: MetricsFixture, isBareFirst: boolean): Promise<Edges> {
  const startBare = () => startWorkerdEdge(fixture.upload, fixture.variables);
  const startCounted = async () =>
    startMetricsEdge(fixture.upload, fixture.variables, {
      folder: await mkdtemp(join(fixture.folder, "metrics-")),
    });
  if (isBareFirst) return { isBareFirst, all: [await startBare(), await startCounted()] };
  return { isBareFirst, all: [await startCounted(), await startBare()] };
}

async function measure(
  { isBareFirst, all }: Edges,
  calls: readonly Call[],
  {
    turns,
    rate,
    random,
  }: { readonly turns: number; readonly rate: number; readonly random: Random },
): Promise<Pair> {
  const sides = all.map((edge) => ({
    edge,
    send: createSender(edge.url, CONNECTIONS),
    measured: { requests: 0, seconds: 0, cpuMs: 0, latenciesMs: [] } as ProcessMeasurement,
  }));
  for (const { send } of sides)
    await closedLoop(send, () => random.pick(calls), CONNECTIONS, WARM_UP_SECONDS, assertOkReply);
  for (let turn = 0; turn < turns; turn++) {
    // The second process may find the machine in another state, so the order alternates.
    for (const { edge, send, measured } of turn % 2 === 0 ? sides : sides.toReversed())
      await runTurn(edge, send, measured, calls, rate, random);
  }
  for (const { send } of sides) send.close();
  const [first, second] = sides.map(({ measured }) => measured) as [
    ProcessMeasurement,
    ProcessMeasurement,
  ];
  return isBareFirst ? [first, second] : [second, first];
}

/** Measures the maximum rate, then the latencies at a fixed rate. */
async function runTurn(
  { pid }: WorkerdEdge,
  send: Send,
  measured: ProcessMeasurement,
  calls: readonly Call[],
  rate: number,
  random: Random,
): Promise<void> {
  const before = (await readProcessCpuMs(pid)) ?? Number.NaN;
  const perSecond = await closedLoop(
    send,
    () => random.pick(calls),
    CONNECTIONS,
    SECONDS_PER_TURN,
    assertOkReply,
  );
  measured.cpuMs += ((await readProcessCpuMs(pid)) ?? Number.NaN) - before;
  measured.requests += perSecond * SECONDS_PER_TURN;
  measured.seconds += SECONDS_PER_TURN;
  const drawn = Array.from({ length: Math.round(rate * SECONDS_PER_TURN) }, () =>
    random.pick(calls),
  );
  measured.latenciesMs.push(
    ...(await openLoop(send, drawn, rate, random, assertOkReply)).latenciesMs,
  );
}

const total = (all: readonly ProcessMeasurement[], of: "requests" | "seconds" | "cpuMs"): number =>
  all.reduce((sum, one) => sum + one[of], 0);
const rateOf = (all: readonly ProcessMeasurement[]): number =>
  total(all, "requests") / total(all, "seconds");
const cpuOf = (all: readonly ProcessMeasurement[]): number =>
  total(all, "cpuMs") / total(all, "requests");

function summary(all: readonly ProcessMeasurement[]) {
  return {
    requestsPerSecond: roundToFourDigits(rateOf(all)),
    cpuMsPerRequest: roundToFourDigits(cpuOf(all)),
    ...summarizeLatencies(all.flatMap(({ latenciesMs }) => latenciesMs)),
  };
}

/** Ratio of with to without metrics; the range holds 95 % of the bootstrap ratios (Efron 1979). */
function ratios(figure: string, pairs: readonly Pair[], random: Random): Record<string, number> {
  const ratioOf = (of: (all: readonly ProcessMeasurement[]) => number, drawn: readonly Pair[]) =>
    of(drawn.map(([, counted]) => counted)) / of(drawn.map(([without]) => without));
  const measured = (
    [
      ["RateRatio", rateOf],
      ["CpuRatio", cpuOf],
    ] as const
  ).map(([name, of]) => {
    const redrawn = Array.from({ length: RESAMPLES }, () =>
      ratioOf(
        of,
        pairs.map(() => random.pick(pairs)),
      ),
    );
    return {
      [`${figure}${name}`]: roundToFourDigits(ratioOf(of, pairs)),
      [`${figure}${name}Low`]: roundToFourDigits(quantile(redrawn, 0.025)),
      [`${figure}${name}High`]: roundToFourDigits(quantile(redrawn, 0.975)),
    };
  });
  const p99Of = (all: readonly ProcessMeasurement[]) =>
    summarizeLatencies(all.flatMap(({ latenciesMs }) => latenciesMs)).p99Ms;
  return Object.assign(
    { [`${figure}P99Ratio`]: roundToFourDigits(ratioOf(p99Of, pairs)) },
    ...measured,
  );
}
