// Clients leave while their requests wait, share a run, or are computed; and a region is told to stop while it is busy.
import { request } from "node:http";
import type { LocalRegion } from "../../../src/cli/local/region.ts";
import { ask, inParallel, shown } from "../lib/ask.ts";
import { ODD, predict } from "../lib/intent.ts";
import { isIdle, regionFigures } from "../lib/region-metrics.ts";
import {
  createFindings,
  type Findings,
  type Reached,
  type Scenario,
  type Size,
} from "../lib/scenario.ts";
import { passed, until } from "../lib/until.ts";
import type { World } from "../lib/world.ts";

const MOOD = "/v2/models/mood/versions/1/infer";
const body = (tier: string) =>
  JSON.stringify({
    inputs: [{ name: "input", shape: [1], datatype: "BYTES", data: ["good"] }],
    parameters: { tier },
  });
const isRight = (text: string) => /"data":\[1,0\]/.test(text);
/** What a busy machine needs to notice. */
const WITHIN_MS = 10_000;

interface Caller {
  /** The server has begun with the request. */
  readonly taken: Promise<void>;
  readonly answer: Promise<string | undefined>;
  leave(): void;
}

/** On a connection of its own. The body goes once the server has said that it will read it. */
function call(region: string, tier = "slow"): Caller {
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
  return { taken, answer, leave: () => void outgoing.destroy() };
}

async function callers(region: string, count: number): Promise<Caller[]> {
  const all = Array.from({ length: count }, () => call(region));
  await Promise.all(all.map(({ taken }) => taken));
  return all;
}

/** All leave; the work that nobody has begun with must not be done, and a new caller must not wait for it. */
async function leave(
  region: LocalRegion,
  count: number,
  findings: Findings,
  what: string,
): Promise<{ runs: number; rows: number; freedMs: number }> {
  const before = await regionFigures(region.url, "mood");
  const all = await callers(region.url, count);
  await until(async () => (await regionFigures(region.url, "mood")).running > 0, WITHIN_MS, 5);
  for (const one of all) one.leave();
  const leftAtMs = performance.now();
  const freed = await until(() => isIdle(region.url), WITHIN_MS, 10);
  const freedMs = performance.now() - leftAtMs;
  const after = await regionFigures(region.url, "mood");
  const [runs, rows] = [after.runs - before.runs, after.rows - before.rows];
  findings.expect(
    freed !== undefined,
    () => `${what}: the region was still busy after ${WITHIN_MS} ms`,
  );
  findings.expect(
    rows < count / 2,
    () => `${what}: ${rows} rows were computed for ${count} callers that had left`,
  );
  findings.expect(
    after.cancelled - before.cancelled >= count - rows - 1,
    () =>
      `${what}: ${after.cancelled - before.cancelled} of ${count} requests were counted as cancelled, ${rows} rows computed`,
  );
  const next = await ask(region.url, { path: MOOD, body: body("slow") });
  findings.expect(
    next.status === 200 && isRight(next.text),
    () => `${what}, the next request: ${shown(next)}`,
  );
  return { runs, rows, freedMs: Math.round(freedMs) };
}

async function atRegion(world: World, { samples }: Size): Promise<Reached> {
  const findings = createFindings();
  const count = Math.max(24, Math.min(200, samples));
  const alone = await world.startRegion({ EDGETIER_REGION_BATCHING: "off" }, ["mood@1"]);
  const queued = await leave(alone, count, findings, "queued");
  await alone.stop();
  const sharing = await world.startRegion(
    { EDGETIER_REGION_MAX_BATCH_ROWS: "8", EDGETIER_REGION_MAX_QUEUE_SIZE: "1000" },
    ["mood@1"],
  );
  const batched = await leave(sharing, count, findings, "batched");
  const computing = await computed(sharing, findings);
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
async function computed(region: LocalRegion, findings: Findings): Promise<number> {
  const [one] = await callers(region.url, 1);
  await until(async () => (await regionFigures(region.url, "mood")).running > 0, WITHIN_MS, 5);
  one?.leave();
  const freedMs = await until(() => isIdle(region.url), WITHIN_MS, 10);
  findings.expect(freedMs !== undefined, () => "computing: its slot was not freed");
  return Math.round(freedMs ?? WITHIN_MS);
}

/** Clients of the edge leave while it waits for the region. */
async function atEdge(world: World, { samples }: Size): Promise<Reached> {
  const findings = createFindings();
  const count = Math.max(20, Math.min(100, samples));
  const edge = await world.startEdge();
  try {
    await predict(edge.url, ODD.text);
    const { region } = world.proxies;
    region.fault = { kind: "hangs" };
    region.forget();
    const calls = Array.from({ length: count }, (_, index) => {
      const outgoing = request(`${edge.url}/v1/models/intent/predict`, {
        method: "POST",
        agent: false,
        headers: { "content-type": "application/json", "x-deadline-ms": "60000" },
      });
      outgoing
        .on("error", () => {})
        .end(JSON.stringify({ inputs: `${ODD.text} ${index}`, parameters: { cache: "bypass" } }));
      return outgoing;
    });
    const asked = await until(() => region.seen.length >= count, WITHIN_MS);
    findings.expect(
      asked !== undefined,
      () => `${region.seen.length} of ${count} requests reached the region`,
    );
    for (const one of calls) one.socket?.resetAndDestroy(); // workerd takes the end of what a client sends for just that: it may still listen
    const leftMs = await until(() => region.abandoned >= count, WITHIN_MS);
    findings.expect(
      leftMs !== undefined,
      () => `the edge gave up ${region.abandoned} of ${count} calls whose clients had left`,
    );
    const abandoned = region.abandoned;
    world.heal();
    const { reply, output } = await predict(edge.url, ODD.text);
    findings.expect(output?.degraded === false, () => `the next request: ${shown(reply)}`);
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
async function inTheMidst(world: World, { samples }: Size): Promise<Reached> {
  const findings = createFindings();
  const count = Math.max(40, Math.min(400, samples));
  const edge = await world.startEdge({ EDGETIER_MAX_IN_FLIGHT: "4" });
  try {
    await predict(edge.url, ODD.text);
    for (let index = 0; index < count; index++) {
      const text = JSON.stringify({
        inputs: `${ODD.text} ${index}`,
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
      await passed(index % 20);
      outgoing.socket?.resetAndDestroy();
    }
    const freedMs = await until(
      async () => (await predict(edge.url, ODD.text)).output !== undefined,
      2_000,
    );
    findings.expect(
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
async function terminated(world: World, { samples }: Size): Promise<Reached> {
  const findings = createFindings();
  const region = await world.startRegion(
    { EDGETIER_REGION_BATCHING: "off", EDGETIER_DRAIN_TIMEOUT_MS: "30000" },
    ["mood@1", "intent"],
  );
  const edge = await world.startEdge({ EDGETIER_REGION_URL: region.url });
  try {
    await predict(edge.url, ODD.text);
    const busy = await callers(region.url, 12);
    const startedAtMs = performance.now();
    process.kill(region.pid, "SIGTERM");
    const notReadyMs = await until(
      async () =>
        (await ask(region.url, { path: "/v2/health/ready", timeoutMs: 1_000 })).status !== 200,
      WITHIN_MS,
      5,
    );
    findings.expect(notReadyMs !== undefined, () => "it went on saying that it was ready");
    let degraded = 0;
    const through = inParallel(Math.min(200, samples), 4, async () => {
      const { reply, output } = await predict(edge.url, ODD.text, { deadlineMs: 2_000 });
      findings.expect(
        output !== undefined && (output.label === ODD.label || output.degraded),
        () => `through the edge: ${shown(reply)}`,
      );
      degraded += Number(output?.degraded ?? false);
    });
    const answers = await Promise.all(busy.map(({ answer }) => answer));
    const answered = answers.filter((text) => text !== undefined && isRight(text)).length;
    findings.expect(
      answered === busy.length,
      () => `${answered} of ${busy.length} requests that it had taken were answered`,
    );
    const how = await Promise.race([region.died, passed(WITHIN_MS).then(() => "not at all")]);
    findings.expect(how === "exit code 0", () => `it ended ${how}`);
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
export const leavingClients: readonly Scenario[] = [
  { row, name: "while queued, batched and computing at the region", expected, run: atRegion },
  { row, name: "while the edge waits for the region", expected, run: atEdge },
  { row, name: "in the midst of requests to the edge", expected, run: inTheMidst },
];
export const terminatedRegion: readonly Scenario[] = [
  {
    row: "SIGTERM under load",
    name: "at the region",
    expected: "not ready, queued work finishes within the grace period, exit 0",
    run: terminated,
  },
];
