// Clients leave while their requests wait, share a run, or are computed; and a region is told to stop while it is busy.
import { request } from "node:http";
import type { LocalRegion } from "../../../src/cli/local/region.ts";
import { sendRequest, runConcurrently, formatReply } from "../lib/http-client.ts";
import { OUT_OF_SCOPE_SAMPLE, predict } from "../lib/intent-checks.ts";
import { isRegionIdle, readRegionMetrics } from "../lib/region-metrics.ts";
import {
  createProblemCollector,
  type ProblemCollector,
  type ScenarioResult,
  type Scenario,
  type ScenarioSize,
} from "../lib/scenario.ts";
import type { FaultSystem } from "../lib/system-fixture.ts";
import { delay, waitUntil } from "../lib/wait-until.ts";

const MOOD = "/v2/models/mood/versions/1/infer";
const body = (tier: string) =>
  JSON.stringify({
    inputs: [{ name: "input", shape: [1], datatype: "BYTES", data: ["good"] }],
    parameters: { tier },
  });
const isRight = (text: string) => /"data":\[1,0\]/.test(text);
/** Maximum delay until a busy machine notices a disconnect. */
const WITHIN_MS = 10_000;

interface PendingCall {
  /** The server has begun with the request. */
  readonly accepted: Promise<void>;
  readonly response: Promise<string | undefined>;
  disconnect(): void;
}

/** On a connection of its own. The body goes once the server has said that it will read it. */
function startCall(region: string, tier = "slow"): PendingCall {
  const outgoing = request(`${region}${MOOD}`, {
    method: "POST",
    agent: false,
    headers: { expect: "100-continue", "content-type": "application/json" },
  });
  const taken = new Promise<void>((resolve) =>
    outgoing
      .once("continue", () => outgoing.end(body(tier), () => resolve()))
      .once("close", resolve),
  );
  const answer = new Promise<string | undefined>((resolve) => {
    outgoing.on("error", () => resolve(undefined));
    outgoing.on("response", async (response) =>
      resolve(Buffer.concat(await response.toArray().catch(() => [])).toString()),
    );
  });
  return { accepted: taken, response: answer, disconnect: () => void outgoing.destroy() };
}

async function startCalls(region: string, count: number): Promise<PendingCall[]> {
  const all = Array.from({ length: count }, () => startCall(region));
  await Promise.all(all.map(({ accepted: taken }) => taken));
  return all;
}

/** All leave; the work that nobody has begun with must not be done, and a new caller must not wait for it. */
async function disconnectAll(
  region: LocalRegion,
  count: number,
  findings: ProblemCollector,
  what: string,
): Promise<{ runs: number; rows: number; freedMs: number }> {
  const before = await readRegionMetrics(region.url, "mood");
  const all = await startCalls(region.url, count);
  await waitUntil(
    async () => (await readRegionMetrics(region.url, "mood")).runsInFlight > 0,
    WITHIN_MS,
    5,
  );
  for (const one of all) one.disconnect();
  const leftAtMs = performance.now();
  const freed = await waitUntil(() => isRegionIdle(region.url), WITHIN_MS, 10);
  const freedMs = performance.now() - leftAtMs;
  const after = await readRegionMetrics(region.url, "mood");
  const [runs, rows] = [after.runCount - before.runCount, after.rowCount - before.rowCount];
  findings.check(
    freed !== undefined,
    () => `${what}: the region was still busy after ${WITHIN_MS} ms`,
  );
  findings.check(
    rows < count / 2,
    () => `${what}: ${rows} rows were computed for ${count} callers that had left`,
  );
  findings.check(
    after.cancelledCount - before.cancelledCount >= count - rows - 1,
    () =>
      `${what}: ${after.cancelledCount - before.cancelledCount} of ${count} requests were counted as cancelled, ${rows} rows computed`,
  );
  const next = await sendRequest(region.url, { path: MOOD, body: body("slow") });
  findings.check(
    next.status === 200 && isRight(next.text),
    () => `${what}, the next request: ${formatReply(next)}`,
  );
  return { runs, rows, freedMs: Math.round(freedMs) };
}

async function runRegionDisconnects(
  system: FaultSystem,
  { samples }: ScenarioSize,
): Promise<ScenarioResult> {
  const findings = createProblemCollector();
  const count = Math.max(24, Math.min(200, samples));
  const alone = await system.startRegion({ EDGETIER_REGION_BATCHING: "off" }, ["mood@1"]);
  const queued = await disconnectAll(alone, count, findings, "queued");
  await alone.stop();
  const sharing = await system.startRegion(
    { EDGETIER_REGION_MAX_BATCH_ROWS: "8", EDGETIER_REGION_MAX_QUEUE_SIZE: "1000" },
    ["mood@1"],
  );
  const batched = await disconnectAll(sharing, count, findings, "batched");
  const computing = await measureSlotRelease(sharing, findings);
  await sharing.stop();
  return {
    figures: {
      callers: count,
      queuedRowsComputed: queued.rows,
      queuedFreedMs: queued.freedMs,
      batchedRuns: batched.runs,
      batchedRowsComputed: batched.rows,
      batchedFreedMs: batched.freedMs,
      computingFreedMs: computing,
    },
    problems: findings.problems,
  };
}

/** A run cannot be stopped half-way; its slot must be free afterwards. @returns when it was */
async function measureSlotRelease(
  region: LocalRegion,
  findings: ProblemCollector,
): Promise<number> {
  const [one] = await startCalls(region.url, 1);
  await waitUntil(
    async () => (await readRegionMetrics(region.url, "mood")).runsInFlight > 0,
    WITHIN_MS,
    5,
  );
  one?.disconnect();
  const freedMs = await waitUntil(() => isRegionIdle(region.url), WITHIN_MS, 10);
  findings.check(freedMs !== undefined, () => "computing: its slot was not freed");
  return Math.round(freedMs ?? WITHIN_MS);
}

/** Clients of the edge leave while it waits for the region. */
async function runEdgeDisconnects(
  system: FaultSystem,
  { samples }: ScenarioSize,
): Promise<ScenarioResult> {
  const findings = createProblemCollector();
  const count = Math.max(20, Math.min(100, samples));
  const edge = await system.startEdge();
  try {
    await predict(edge.url, OUT_OF_SCOPE_SAMPLE.text);
    const { region } = system.proxies;
    region.fault = { kind: "hangs" };
    region.clearHistory();
    const calls = Array.from({ length: count }, (_, index) => {
      const outgoing = request(`${edge.url}/v1/models/intent/predict`, {
        method: "POST",
        agent: false,
        headers: { "content-type": "application/json", "x-deadline-ms": "60000" },
      });
      outgoing
        .on("error", () => {})
        .end(
          JSON.stringify({
            inputs: `${OUT_OF_SCOPE_SAMPLE.text} ${index}`,
            parameters: { cache: "bypass" },
          }),
        );
      return outgoing;
    });
    const asked = await waitUntil(() => region.receivedRequests.length >= count, WITHIN_MS);
    findings.check(
      asked !== undefined,
      () => `${region.receivedRequests.length} of ${count} requests reached the region`,
    );
    for (const one of calls) one.socket?.resetAndDestroy(); // workerd takes the end of what a client sends for just that: it may still listen
    const leftMs = await waitUntil(() => region.disconnectCount >= count, WITHIN_MS);
    findings.check(
      leftMs !== undefined,
      () =>
        `the edge aborted ${region.disconnectCount} of ${count} calls whose clients had disconnected`,
    );
    const abandoned = region.disconnectCount;
    system.clearFaults();
    const { reply, output } = await predict(edge.url, OUT_OF_SCOPE_SAMPLE.text);
    findings.check(output?.degraded === false, () => `the next request: ${formatReply(reply)}`);
    return {
      figures: {
        clients: count,
        callsGivenUp: abandoned,
        givenUpMs: Math.round(leftMs ?? WITHIN_MS),
      },
      problems: findings.problems,
    };
  } finally {
    await edge.stop();
  }
}

/** More clients than the edge takes at a time leave one after another, some with half of their request sent: their places are free again. */
async function runMidRequestDisconnects(
  system: FaultSystem,
  { samples }: ScenarioSize,
): Promise<ScenarioResult> {
  const findings = createProblemCollector();
  const count = Math.max(40, Math.min(400, samples));
  const edge = await system.startEdge({ EDGETIER_MAX_IN_FLIGHT: "4" });
  try {
    await predict(edge.url, OUT_OF_SCOPE_SAMPLE.text);
    for (let index = 0; index < count; index++) {
      const text = JSON.stringify({
        inputs: `${OUT_OF_SCOPE_SAMPLE.text} ${index}`,
        parameters: { cache: "bypass" },
      });
      const outgoing = request(`${edge.url}/v1/models/intent/predict`, {
        method: "POST",
        agent: false,
        headers: { "content-type": "application/json", "content-length": Buffer.byteLength(text) },
      });
      outgoing
        .on("error", () => {})
        .write(index % 2 === 0 ? text : text.slice(0, text.length >> 1));
      await delay(index % 20);
      outgoing.socket?.resetAndDestroy();
    }
    const freedMs = await waitUntil(
      async () => (await predict(edge.url, OUT_OF_SCOPE_SAMPLE.text)).output !== undefined,
      2_000,
    );
    findings.check(
      freedMs !== undefined,
      () => `${count} clients have left, and nobody else is answered`,
    );
    return {
      figures: { clients: count, freedMs: Math.round(freedMs ?? 2_000) },
      problems: findings.problems,
    };
  } finally {
    await edge.stop();
  }
}

/** Requests through an edge go on meanwhile: it answers them all, degraded ones marked. */
async function runRegionShutdown(
  system: FaultSystem,
  { samples }: ScenarioSize,
): Promise<ScenarioResult> {
  const findings = createProblemCollector();
  const region = await system.startRegion(
    { EDGETIER_REGION_BATCHING: "off", EDGETIER_DRAIN_TIMEOUT_MS: "30000" },
    ["mood@1", "intent"],
  );
  const edge = await system.startEdge({ EDGETIER_REGION_URL: region.url });
  try {
    await predict(edge.url, OUT_OF_SCOPE_SAMPLE.text);
    const busy = await startCalls(region.url, 12);
    const startedAtMs = performance.now();
    process.kill(region.pid, "SIGTERM");
    const notReadyMs = await waitUntil(
      async () =>
        (await sendRequest(region.url, { path: "/v2/health/ready", timeoutMs: 1_000 })).status !==
        200,
      WITHIN_MS,
      5,
    );
    findings.check(notReadyMs !== undefined, () => "it went on saying that it was ready");
    let degraded = 0;
    const through = runConcurrently(Math.min(200, samples), 4, async () => {
      const { reply, output } = await predict(edge.url, OUT_OF_SCOPE_SAMPLE.text, {
        deadlineMs: 2_000,
      });
      findings.check(
        output !== undefined && (output.label === OUT_OF_SCOPE_SAMPLE.label || output.degraded),
        () => `through the edge: ${formatReply(reply)}`,
      );
      degraded += Number(output?.degraded ?? false);
    });
    const answers = await Promise.all(busy.map(({ response: answer }) => answer));
    const answered = answers.filter((text) => text !== undefined && isRight(text)).length;
    findings.check(
      answered === busy.length,
      () => `${answered} of ${busy.length} requests that it had taken were answered`,
    );
    const how = await Promise.race([region.died, delay(WITHIN_MS).then(() => "not at all")]);
    findings.check(how === "exit code 0", () => `it ended ${how}`);
    const endedMs = Math.round(performance.now() - startedAtMs);
    await through;
    return {
      figures: {
        taken: busy.length,
        answered,
        notReadyMs: Math.round(notReadyMs ?? WITHIN_MS),
        endedMs,
        degradedThroughEdge: degraded,
      },
      problems: findings.problems,
    };
  } finally {
    await edge.stop();
    await region.stop();
  }
}

const row = "client leaves";
const expected = "work dropped, slot freed, no leak";
export const clientDisconnects: readonly Scenario[] = [
  {
    group: row,
    name: "while queued, batched and computing at the region",
    expected,
    run: runRegionDisconnects,
  },
  { group: row, name: "while the edge waits for the region", expected, run: runEdgeDisconnects },
  {
    group: row,
    name: "in the midst of requests to the edge",
    expected,
    run: runMidRequestDisconnects,
  },
];
export const regionShutdown: readonly Scenario[] = [
  {
    group: "SIGTERM under load",
    name: "at the region",
    expected: "not ready, queued work finishes within the grace period, exit 0",
    run: runRegionShutdown,
  },
];
