import { request } from "node:http";
import { generateQueries } from "../../../src/cli/load/query-generator.ts";
// Soak: valid and invalid requests and disconnecting clients for a long time. Memory stays flat, and no request is left.
import { quantile } from "../../../src/toolchain/evaluate/latency.ts";
import { seededRandom } from "../../../src/toolchain/seeded-random.ts";
import { createRequestMutator } from "../../support/mutate-request.ts";
import {
  sendRequest,
  runConcurrently,
  isLateOrUnsupported,
  formatReply,
} from "../lib/http-client.ts";
import {
  OUT_OF_SCOPE_SAMPLE,
  predict,
  findEdgeProblem,
  findRegionProblem,
} from "../lib/intent-checks.ts";
import { readRssMiB } from "../lib/process-memory.ts";
import { isRegionIdle, readRegionMetrics } from "../lib/region-metrics.ts";
import {
  createProblemCollector,
  type ProblemCollector,
  type Figures,
  type ScenarioResult,
  type Scenario,
  type ScenarioSize,
} from "../lib/scenario.ts";
import type { FaultSystem } from "../lib/system-fixture.ts";
import { waitUntil } from "../lib/wait-until.ts";

const SEED = 30;
const CONCURRENCY = 6;
const INVALID_SHARE = 0.3;
const DISCONNECT_SHARE = 0.1;
/**
 * Maximum growth from the peak of the first half, after the warm-up, to the peak of the second half. Two single moments are
 * not comparable, because V8's young generation grows and shrinks by 50 MiB.
 */
const MAX_GROWTH_MIB = 32;
/** Limit of a short run, in which V8 returns little memory, so that only a gross leak shows. */
const MAX_SHORT_GROWTH_MIB = 96;
const NAMES = ["edge", "region"] as const;
const WARM_SHARE = 1 / 8;
const MEASURE_EVERY = 500;
const LOG_INTERVAL_REQUESTS = 10_000;
const MAX_LATENCIES = 200_000;

const encode = (text: string) => new TextEncoder().encode(text);
const corpus = [
  {
    method: "POST",
    path: "/v1/models/intent/predict",
    headers: { "content-type": "application/json" },
    body: encode(
      JSON.stringify({
        inputs: [OUT_OF_SCOPE_SAMPLE.text, "what is my balance"],
        parameters: { cache: "bypass" },
      }),
    ),
  },
  {
    method: "GET",
    path: "/v1/models/intent/predict?input=freeze+my+account",
    headers: {},
    body: undefined,
  },
  {
    method: "POST",
    path: "/v2/models/intent/infer",
    headers: { "content-type": "application/json" },
    body: encode(
      '{"inputs":[{"name":"input","shape":[1],"datatype":"BYTES","data":["order a pizza"]}]}',
    ),
  },
];

/** Sends all, or half, of a request and leaves after a while. */
function sendAndDisconnect(edge: string, text: string, afterMs: number): Promise<void> {
  const body = JSON.stringify({ inputs: text, parameters: { cache: "bypass" } });
  return new Promise((resolve) => {
    const outgoing = request(`${edge}/v1/models/intent/predict`, {
      method: "POST",
      agent: false,
      headers: { "content-type": "application/json", "content-length": Buffer.byteLength(body) },
    });
    outgoing
      .on("error", () => resolve())
      .on("close", () => resolve())
      .on("response", (response) => response.resume());
    outgoing.write(afterMs % 2 === 0 ? body : body.slice(0, body.length >> 1));
    setTimeout(() => outgoing.socket?.resetAndDestroy(), afterMs);
  });
}

interface SoakFigures {
  requests: number;
  bad: number;
  left: number;
  degraded: number;
}

interface SoakTraffic {
  readonly figures: Readonly<SoakFigures>;
  /** Latencies of the valid requests. */
  readonly latenciesMs: readonly number[];
  /** Sends one request: valid, invalid, or one whose client disconnects. */
  sendNext(): Promise<void>;
}

function createSoakTraffic(edge: string, findings: ProblemCollector): SoakTraffic {
  const random = seededRandom(SEED);
  const mutated = createRequestMutator(SEED, corpus);
  const queries = generateQueries(2_000, SEED);
  const latenciesMs: number[] = [];
  const figures: SoakFigures = { requests: 0, bad: 0, left: 0, degraded: 0 };

  async function sendValid(): Promise<void> {
    const text = queries[Math.floor(random() * queries.length)] ?? "";
    const cache = random() < 0.5 ? "use" : "bypass";
    const { reply, output } = await predict(edge, text, { cache, deadlineMs: 10_000 });
    findings.check(output !== undefined, () => `a valid request got ${formatReply(reply)}`);
    figures.degraded += Number(output?.degraded ?? false);
    if (latenciesMs.length < MAX_LATENCIES) latenciesMs.push(reply.durationMs);
  }

  async function sendInvalid(): Promise<void> {
    figures.bad++;
    const { headers, ...request } = mutated();
    const { "content-length": _, ...others } = headers; // mutated-requests.ts tests wrong lengths
    const reply = await sendRequest(edge, {
      ...request,
      headers: others,
      path: request.path.replace(/[^\x21-\x7e]/gu, encodeURIComponent),
    }).catch(() => undefined);
    const isAnswer =
      reply === undefined || (reply.status > 0 && reply.status < 500) || isLateOrUnsupported(reply);
    findings.check(
      isAnswer,
      () =>
        `${request.method} ${request.path.slice(0, 80)} got ${reply === undefined ? "" : formatReply(reply)}`,
    );
  }

  async function disconnect(): Promise<void> {
    figures.left++;
    const text = `${OUT_OF_SCOPE_SAMPLE.text} ${figures.left}`;
    await sendAndDisconnect(edge, text, Math.floor(random() * 40));
  }

  return {
    figures,
    latenciesMs,
    async sendNext() {
      figures.requests++;
      const drawn = random();
      if (drawn < INVALID_SHARE) await sendInvalid();
      else if (drawn < INVALID_SHARE + DISCONNECT_SHARE) await disconnect();
      else await sendValid();
    },
  };
}

interface MemoryPeaks {
  /** @param progress from 0 to 1: decides between the peaks of the first and of the second half */
  measure(progress: number): Promise<void>;
  /** Checks the growth of both processes. @returns growths and peaks; none without /proc */
  check(maxGrowthMiB: number, findings: ProblemCollector): Figures;
}

function createMemoryPeaks(processes: readonly { readonly pid: number }[]): MemoryPeaks {
  const firstHalf: (number | undefined)[] = [];
  const secondHalf: (number | undefined)[] = [];
  const named = (values: readonly (number | undefined)[], figure: string) =>
    values.flatMap((value, index) =>
      value === undefined ? [] : [[`${NAMES[index]}${figure}`, value]],
    );
  return {
    async measure(progress) {
      const peaks = progress < (1 + WARM_SHARE) / 2 ? firstHalf : secondHalf;
      for (const [index, { pid }] of processes.entries()) {
        const sizeMiB = await readRssMiB(pid);
        peaks[index] = sizeMiB === undefined ? undefined : Math.max(sizeMiB, peaks[index] ?? 0);
      }
    },
    check(maxGrowthMiB, findings) {
      const growthsMiB = secondHalf.map((peak, index) =>
        peak === undefined ? undefined : peak - (firstHalf[index] ?? peak),
      );
      for (const [index, name] of NAMES.entries())
        findings.check(
          (growthsMiB[index] ?? 0) < maxGrowthMiB,
          () => `the ${name} grew by ${growthsMiB[index]} MiB`,
        );
      return Object.fromEntries([
        ...named(growthsMiB, "RssGrowthMiB"),
        ...named(secondHalf, "PeakRssMiB"),
      ]);
    },
  };
}

/** Both processes work after the soak, and the region has no request left. @returns the number of requests left */
async function checkIdle(
  edge: string,
  region: string,
  findings: ProblemCollector,
): Promise<number> {
  const idleMs = await waitUntil(() => isRegionIdle(region), 10_000);
  findings.check(idleMs !== undefined, () => "the region is still busy without requests");
  const { pendingCount, runsInFlight, inFlight } = await readRegionMetrics(region);
  for (const problem of [await findEdgeProblem(edge), await findRegionProblem(region)])
    findings.check(problem === undefined, () => problem ?? "");
  return pendingCount + runsInFlight + inFlight;
}

async function runSoak(
  system: FaultSystem,
  { soakRequests, soakMs }: ScenarioSize,
): Promise<ScenarioResult> {
  const findings = createProblemCollector();
  const edge = await system.startEdge();
  const region = await system.startRegion({}, ["intent"]);
  const through = system.proxies.region.target;
  system.proxies.region.target = region.url;
  const traffic = createSoakTraffic(edge.url, findings);
  const { figures } = traffic;
  const memory = createMemoryPeaks([edge, region]);
  const startedAtMs = performance.now();
  const elapsedMs = () => performance.now() - startedAtMs;
  const isOver = () => figures.requests >= soakRequests && elapsedMs() >= soakMs;
  const progress = () =>
    Math.min(1, figures.requests / soakRequests, soakMs === 0 ? 1 : elapsedMs() / soakMs);
  try {
    await runConcurrently(CONCURRENCY, CONCURRENCY, async () => {
      while (!isOver()) {
        await traffic.sendNext();
        if (figures.requests % LOG_INTERVAL_REQUESTS === 0)
          system.log(`  ${figures.requests} requests, ${Math.round(100 * progress())} %`);
        if (figures.requests % MEASURE_EVERY === 0 && progress() >= WARM_SHARE)
          await memory.measure(progress());
      }
    });
    const orphans = await checkIdle(edge.url, region.url, findings);
    await memory.measure(progress());
    const maxGrowthMiB = soakMs === 0 ? MAX_SHORT_GROWTH_MIB : MAX_GROWTH_MIB;
    return {
      figures: {
        ...figures,
        seconds: elapsedMs() / 1_000,
        p50Ms: quantile(traffic.latenciesMs, 0.5),
        p99Ms: quantile(traffic.latenciesMs, 0.99),
        orphans,
        ...memory.check(maxGrowthMiB, findings),
      },
      problems: findings.problems,
    };
  } finally {
    system.proxies.region.target = through;
    await edge.stop();
    await region.stop();
  }
}

export const soakTests: readonly Scenario[] = [
  {
    group: "soak",
    name: "mixed requests, 30 % bad, 10 % leaving",
    expected: "next request right, memory flat, no orphan batch entry",
    run: runSoak,
  },
];
