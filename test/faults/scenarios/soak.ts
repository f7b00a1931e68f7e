// Right and wrong requests and clients that leave, mixed, for a long time: memory stays flat and nothing is left behind.
import { quantile } from "../../../src/toolchain/evaluate/latency.ts";
import { request } from "node:http";
import { seededRandom } from "../../../src/toolchain/seeded-random.ts";
import { generateQueries } from "../../../src/cli/load/query-generator.ts";
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
import { isRegionIdle, readRegionMetrics } from "../lib/region-metrics.ts";
import { readRssMiB } from "../lib/process-memory.ts";
import {
  createProblemCollector,
  type Figures,
  type ScenarioResult,
  type Scenario,
  type ScenarioSize,
} from "../lib/scenario.ts";
import { waitUntil } from "../lib/wait-until.ts";
import type { FaultSystem } from "../lib/system-fixture.ts";

const SEED = 30;
const CONCURRENCY = 6;
const INVALID_SHARE = 0.3;
const DISCONNECT_SHARE = 0.1;
/**
 * Maximum growth from the peak of the first half, after the warm-up, to the peak of the second half. Two single moments are
 * not comparable, because V8's young generation grows and shrinks by 50 MiB.
 */
const MAX_GROWTH_MIB = 32;
/** In seconds V8 does not show what it would give back: only a gross leak can be told. */
const MAX_SHORT_GROWTH_MIB = 96;
const NAMES = ["edge", "region"] as const;
const WARM_SHARE = 1 / 8;
const MEASURE_EVERY = 500;
const LOG_INTERVAL_REQUESTS = 10_000;

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

async function runSoak(
  world: FaultSystem,
  { soakRequests, soakMs }: ScenarioSize,
): Promise<ScenarioResult> {
  const findings = createProblemCollector();
  const random = seededRandom(SEED);
  const mutated = createRequestMutator(SEED, corpus);
  const queries = generateQueries(2_000, SEED);
  const edge = await world.startEdge();
  const region = await world.startRegion({}, ["intent"]);
  const through = world.proxies.region.target;
  world.proxies.region.target = region.url;
  const times: number[] = [];
  const figures = { requests: 0, bad: 0, left: 0, degraded: 0 };
  const startedAtMs = performance.now();
  const isOver = () =>
    figures.requests >= soakRequests && performance.now() - startedAtMs >= soakMs;
  const progress = () =>
    Math.min(
      1,
      Math.min(
        figures.requests / soakRequests,
        soakMs === 0 ? 1 : (performance.now() - startedAtMs) / soakMs,
      ),
    );
  /** Highest so far of edge and region, in the first half and in the second; undefined where there is no /proc. */
  const peaksMiB: (number | undefined)[][] = [[], []];

  async function measure(): Promise<void> {
    const peaks = peaksMiB[progress() < (1 + WARM_SHARE) / 2 ? 0 : 1] ?? [];
    for (const [index, { pid }] of [edge, region].entries()) {
      const sizeMiB = await readRssMiB(pid);
      peaks[index] = sizeMiB === undefined ? undefined : Math.max(sizeMiB, peaks[index] ?? 0);
    }
  }

  async function right(): Promise<void> {
    const { reply, output } = await predict(
      edge.url,
      queries[Math.floor(random() * queries.length)] ?? "",
      { cache: random() < 0.5 ? "use" : "bypass", deadlineMs: 10_000 },
    );
    findings.check(output !== undefined, () => `a right request got ${formatReply(reply)}`);
    figures.degraded += Number(output?.degraded ?? false);
    if (times.length < 200_000) times.push(reply.durationMs);
  }

  async function bad(): Promise<void> {
    figures.bad++;
    const { headers, ...question } = mutated();
    const { "content-length": _, ...others } = headers; // another scenario's
    const reply = await sendRequest(edge.url, {
      ...question,
      headers: others,
      path: question.path.replace(/[^\x21-\x7e]/gu, encodeURIComponent),
    }).catch(() => undefined);
    const isAnswer =
      reply === undefined || (reply.status > 0 && reply.status < 500) || isLateOrUnsupported(reply);
    findings.check(
      isAnswer,
      () =>
        `${question.method} ${question.path.slice(0, 80)} got ${reply === undefined ? "" : formatReply(reply)}`,
    );
  }

  async function leaving(): Promise<void> {
    figures.left++;
    await sendAndDisconnect(
      edge.url,
      `${OUT_OF_SCOPE_SAMPLE.text} ${figures.left}`,
      Math.floor(random() * 40),
    );
  }

  try {
    await runConcurrently(CONCURRENCY, CONCURRENCY, async () => {
      while (!isOver()) {
        figures.requests++;
        if (figures.requests % LOG_INTERVAL_REQUESTS === 0)
          world.log(`  ${figures.requests} requests, ${Math.round(100 * progress())} %`);
        const drawn = random();
        await (drawn < INVALID_SHARE
          ? bad()
          : drawn < INVALID_SHARE + DISCONNECT_SHARE
            ? leaving()
            : right());
        if (figures.requests % MEASURE_EVERY === 0 && progress() >= WARM_SHARE) await measure();
      }
    });
    const idleMs = await waitUntil(() => isRegionIdle(region.url), 10_000);
    findings.check(idleMs !== undefined, () => "the region is still busy although nobody asks it");
    const {
      pendingCount: pending,
      runsInFlight: running,
      inFlight,
    } = await readRegionMetrics(region.url);
    await measure();
    const [first = [], second = []] = peaksMiB;
    const growthsMiB = second.map((peak, index) =>
      peak === undefined ? undefined : peak - (first[index] ?? peak),
    );
    const maxMiB = soakMs === 0 ? MAX_SHORT_GROWTH_MIB : MAX_GROWTH_MIB;
    for (const [index, name] of NAMES.entries())
      findings.check(
        (growthsMiB[index] ?? 0) < maxMiB,
        () => `the ${name} grew by ${growthsMiB[index]} MiB`,
      );
    for (const wrong of [await findEdgeProblem(edge.url), await findRegionProblem(region.url)])
      findings.check(wrong === undefined, () => wrong ?? "");
    const measured = (values: readonly (number | undefined)[], what: string) =>
      values.flatMap((value, index) =>
        value === undefined ? [] : [[`${NAMES[index]}${what}`, value]],
      );
    const memory: Figures = Object.fromEntries([
      ...measured(growthsMiB, "RssGrowthMiB"),
      ...measured(second, "PeakRssMiB"),
    ]);
    return {
      figures: {
        ...figures,
        seconds: (performance.now() - startedAtMs) / 1_000,
        p50Ms: quantile(times, 0.5),
        p99Ms: quantile(times, 0.99),
        orphans: pending + running + inFlight,
        ...memory,
      },
      problems: findings.problems,
    };
  } finally {
    world.proxies.region.target = through;
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
