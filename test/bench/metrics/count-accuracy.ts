// Requests sent against requests counted, on isolates that share an aggregator and do not live for long.
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
/** Processes one after the other, each with isolates of its own. */
const GENERATIONS = 5;
/** An isolate reports after a second, and is heard within a quarter. */
const SETTLE_MS = 3_000;

/** `graceful`, as the platform ends isolates: when what their requests wait for is done. */
type ShutdownKind = "graceful" | "killed";

async function stop(edge: MetricsEdge, end: ShutdownKind): Promise<void> {
  if (end === "graceful") await sleep(SETTLE_MS);
  else process.kill(edge.pid, "SIGKILL");
  await edge.stop();
}

export async function measureCountAccuracy(
  world: MetricsFixture,
  { requests, isolates }: { readonly requests: number; readonly isolates: number },
): Promise<MetricsBenchResult> {
  const inTime = await measureOneRun(world, requests, isolates, "graceful");
  const killed = await measureOneRun(world, requests, isolates, "killed");
  return {
    rows: [inTime, killed],
    figures: {
      sentRequests: inTime.sent,
      countedRequests: inTime.counted,
      statedDroppedShare: inTime.statedDropped / inTime.sent,
      secondsLostByKill: killed.secondsLostByEnd,
    },
  };
}

async function measureOneRun(
  world: MetricsFixture,
  requests: number,
  isolates: number,
  end: ShutdownKind,
) {
  const folder = await mkdtemp(join(world.folder, "metrics-"));
  const random = createRandom(world.seed);
  const good = createCalls(world.seed);
  const bad: Call = { path: "/v1/models/intent/predict", body: "{}" };
  const next = () => (random.next() < 0.1 ? bad : random.pick(good));
  const start = () => startMetricsEdge(world.upload, world.variables, { isolates, folder });
  let sent = 0;
  let busyMs = 0;
  for (let generation = 0; generation < GENERATIONS; generation++) {
    const edge = await start();
    const startedAtMs = performance.now();
    const share = Math.floor(requests / GENERATIONS / isolates);
    try {
      await Promise.all(
        edge.urls.map(async (url) => {
          const send = createSender(url, CONNECTIONS);
          let left = share;
          const caller = async () => {
            while (left-- > 0) {
              const { status } = await send(next());
              if (status !== 200 && status !== 400) throw new Error(`status ${status}`);
              sent++;
            }
          };
          await Promise.all(Array.from({ length: CONNECTIONS }, caller));
          send.close();
        }),
      );
      busyMs += performance.now() - startedAtMs;
    } finally {
      await stop(edge, end);
    }
  }
  const last = await start();
  try {
    const { series } = metricsSnapshotSchema.parse(
      await (
        await fetch(`${last.url}/metrics`, { headers: { accept: "application/json" } })
      ).json(),
    );
    const counted = readCounterSum(
      series,
      "edgetier_requests_total",
      ({ route }) => route === "predict",
    );
    return {
      case: `counted, ${isolates} isolates, ended ${GENERATIONS} times ${end === "graceful" ? "in time" : end}`,
      sent,
      counted,
      missing: sent - counted,
      statedDropped: readCounterSum(series, "edgetier_telemetry_dropped_total"),
      isolates: readCounterSum(series, "edgetier_isolates_started_total"),
      requestsPerSecond: roundToFourDigits((sent * 1_000) / busyMs),
      secondsLostByEnd: roundToFourDigits(
        ((sent - counted) / sent) * (busyMs / 1_000 / GENERATIONS),
      ),
    };
  } finally {
    await last.stop();
  }
}

function readCounterSum(
  series: MetricsSnapshot["series"],
  name: string,
  fits: (labels: Readonly<Record<string, string>>) => boolean = () => true,
): number {
  return series.reduce(
    (sum, one) =>
      one.kind === "counter" && one.name === name && fits(one.labels) ? sum + one.value : sum,
    0,
  );
}
