// Count accuracy: compares sent requests with counted ones, on short-lived isolates that share an aggregator.
import { mkdtemp } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type MetricsEdge, startMetricsEdge } from "../../../src/cli/local/workerd-edge.ts";
import {
  type MetricsSnapshot,
  metricsSnapshotSchema,
} from "../../../src/protocol/metrics-snapshot.ts";
import { type Call, createSender } from "../lib/checked-load.ts";
import { createRandom } from "../lib/random.ts";
import { roundToFourDigits } from "../lib/report.ts";
import { createCalls, type MetricsBenchResult, type MetricsFixture } from "./metrics-fixture.ts";

const CONNECTIONS = 4;
/** Consecutive processes, each with its own isolates. */
const GENERATIONS = 5;
/** An isolate reports after one second; its report arrives within a quarter of a second. */
const SETTLE_MS = 3_000;

/** `graceful`: like the platform, which ends isolates after the work of their requests is complete. */
type ShutdownKind = "graceful" | "killed";

async function stopEdge(edge: MetricsEdge, shutdown: ShutdownKind): Promise<void> {
  if (shutdown === "graceful") await sleep(SETTLE_MS);
  else process.kill(edge.pid, "SIGKILL");
  await edge.stop();
}

interface RunOptions {
  readonly requests: number;
  readonly isolates: number;
}

export async function measureCountAccuracy(
  fixture: MetricsFixture,
  options: RunOptions,
): Promise<MetricsBenchResult> {
  const graceful = await measureRun(fixture, options, "graceful");
  const killed = await measureRun(fixture, options, "killed");
  return {
    rows: [graceful, killed],
    figures: {
      sentRequests: graceful.sent,
      countedRequests: graceful.counted,
      statedDroppedShare: graceful.statedDropped / graceful.sent,
      secondsLostByKill: killed.secondsLostByEnd,
    },
  };
}

async function measureRun(fixture: MetricsFixture, options: RunOptions, shutdown: ShutdownKind) {
  const { requests, isolates } = options;
  const folder = await mkdtemp(join(fixture.folder, "metrics-"));
  const nextCall = createCallMix(fixture.seed);
  const startEdge = () => startMetricsEdge(fixture.upload, fixture.variables, { isolates, folder });
  let sent = 0;
  let busyMs = 0;
  for (let generation = 0; generation < GENERATIONS; generation++) {
    const edge = await startEdge();
    const startedAtMs = performance.now();
    const callsPerIsolate = Math.floor(requests / GENERATIONS / isolates);
    try {
      const counts = await Promise.all(
        edge.urls.map((url) => sendCalls(url, callsPerIsolate, nextCall)),
      );
      sent += counts.reduce((sum, count) => sum + count, 0);
      busyMs += performance.now() - startedAtMs;
    } finally {
      await stopEdge(edge, shutdown);
    }
  }
  const { counted, statedDropped, isolatesStarted } = await readCounts(await startEdge());
  return {
    case: `counted, ${isolates} isolates, ended ${GENERATIONS} times ${shutdown === "graceful" ? "in time" : shutdown}`,
    sent,
    counted,
    missing: sent - counted,
    statedDropped,
    isolates: isolatesStarted,
    requestsPerSecond: roundToFourDigits((sent * 1_000) / busyMs),
    secondsLostByEnd: roundToFourDigits(((sent - counted) / sent) * (busyMs / 1_000 / GENERATIONS)),
  };
}

/** One call in ten is invalid, so that error responses are counted too. */
function createCallMix(seed: number): () => Call {
  const random = createRandom(seed);
  const validCalls = createCalls(seed);
  const invalidCall: Call = { path: "/v1/models/intent/predict", body: "{}" };
  return () => (random.next() < 0.1 ? invalidCall : random.pick(validCalls));
}

/** @returns the number of calls that were answered. @throws Error on a status other than 200 and 400 */
async function sendCalls(url: string, count: number, nextCall: () => Call): Promise<number> {
  const send = createSender(url, CONNECTIONS);
  let remaining = count;
  let sent = 0;
  const runCaller = async () => {
    while (remaining-- > 0) {
      const { status } = await send(nextCall());
      if (status !== 200 && status !== 400) throw new Error(`status ${status}`);
      sent++;
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, runCaller));
  send.close();
  return sent;
}

/** Reads the aggregated counts and stops the edge. */
async function readCounts(edge: MetricsEdge) {
  try {
    const response = await fetch(`${edge.url}/metrics`, {
      headers: { accept: "application/json" },
    });
    const { series } = metricsSnapshotSchema.parse(await response.json());
    return {
      counted: readCounterSum(
        series,
        "edgetier_requests_total",
        ({ route }) => route === "predict",
      ),
      statedDropped: readCounterSum(series, "edgetier_telemetry_dropped_total"),
      isolatesStarted: readCounterSum(series, "edgetier_isolates_started_total"),
    };
  } finally {
    await edge.stop();
  }
}

function readCounterSum(
  series: MetricsSnapshot["series"],
  name: string,
  matches: (labels: Readonly<Record<string, string>>) => boolean = () => true,
): number {
  return series.reduce(
    (sum, entry) =>
      entry.kind === "counter" && entry.name === name && matches(entry.labels)
        ? sum + entry.value
        : sum,
    0,
  );
}
