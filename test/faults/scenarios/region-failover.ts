// Two regions, of which one fails: the other answers, breakers open and close again, and hedging stays within its budget.
import { quantile } from "../../../src/toolchain/evaluate/latency.ts";
import { type Fault, type FaultProxy, startFaultProxy } from "../../support/fault-proxy.ts";
import { formatReply } from "../lib/http-client.ts";
import { OUT_OF_SCOPE_SAMPLE, predict } from "../lib/intent-checks.ts";
import {
  createProblemCollector,
  type ProblemCollector,
  type ScenarioResult,
  type Scenario,
  type ScenarioSize,
} from "../lib/scenario.ts";
import type { FaultSystem } from "../lib/system-fixture.ts";
import { delay, waitUntil } from "../lib/wait-until.ts";

const DEADLINE_MS = 1_000;
const SLACK_MS = 300;
const RECOVERED_WITHIN_MS = 60_000;
const MAX_EXTRA_SHARE = 0.03;
/** Calls of a token budget before its share applies. */
const BURST = 5;

interface TwoRegions {
  readonly edge: string;
  /** The first one's place is the client's; the second is far. */
  readonly proxies: readonly [FaultProxy, FaultProxy];
}

async function withTwoRegions(
  system: FaultSystem,
  work: (two: TwoRegions) => Promise<ScenarioResult>,
): Promise<ScenarioResult> {
  const regions = [
    await system.startRegion({}, ["intent"]),
    await system.startRegion({}, ["intent"]),
  ] as const;
  const proxies = [
    await startFaultProxy(regions[0].url),
    await startFaultProxy(regions[1].url),
  ] as const;
  const places = [
    { latitudeDegrees: 50.1, longitudeDegrees: 8.7 },
    { latitudeDegrees: 39, longitudeDegrees: -77.5 },
  ];
  const list = proxies.map(({ url }, index) => ({
    id: `region-${index + 1}`,
    url,
    place: places[index],
  }));
  const edge = await system.startEdge({
    EDGETIER_REGION_URL: undefined,
    EDGETIER_REGIONS: JSON.stringify(list),
  });
  try {
    for (let count = 0; count < 40; count++) await predict(edge.url, OUT_OF_SCOPE_SAMPLE.text); // so that latencies are known
    return await work({ edge: edge.url, proxies });
  } finally {
    await edge.stop();
    for (const one of [...proxies.map(({ close }) => ({ stop: close })), ...regions])
      await one.stop();
  }
}

const faults: Readonly<Record<string, Fault>> = {
  refuses: { kind: "resets" },
  resets: { kind: "halfOpen", resetAfterMs: 20 },
  "says 500": { kind: "status", status: 500, body: '{"error":"internal"}' },
  hangs: { kind: "hangs" },
  "cuts answers off": { kind: "truncates" },
};

interface FailoverFigures {
  faults: number;
  requests: number;
  errors: number;
  degraded: number;
  degradedMaxShare: number;
  callsWhileOpen: number;
  recoverMaxMs: number;
}

/** One region that fails next to one that works. */
interface FailoverStep {
  readonly edge: TwoRegions["edge"];
  readonly failing: FaultProxy;
  readonly other: FaultProxy | undefined;
  readonly how: string;
  readonly samples: number;
  readonly findings: ProblemCollector;
  readonly figures: FailoverFigures;
}

const predictOutOfScope = (edge: TwoRegions["edge"]) =>
  predict(edge, OUT_OF_SCOPE_SAMPLE.text, { deadlineMs: DEADLINE_MS });

/** Every request is answered in time, and few answers are degraded until the circuit breaker opens. */
async function checkAnswers({ edge, how, samples, findings, figures }: FailoverStep) {
  let degraded = 0;
  for (let index = 0; index < samples; index++) {
    const { reply, output } = await predictOutOfScope(edge);
    figures.requests++;
    degraded += Number(output?.degraded ?? false);
    figures.errors += Number(output === undefined);
    findings.check(
      output !== undefined && reply.durationMs < DEADLINE_MS + SLACK_MS,
      () => `one region ${how}: ${formatReply(reply)}`,
    );
  }
  figures.degraded += degraded;
  figures.degradedMaxShare = Math.max(figures.degradedMaxShare, degraded / samples);
  findings.check(
    degraded <= Math.max(BURST, samples / 10),
    () =>
      `one region ${how}: ${degraded} of ${samples} answers were degraded, although the other region works`,
  );
}

/** The open circuit breaker keeps calls from the failing region. */
async function checkOpenCircuit({ edge, failing, how, findings, figures }: FailoverStep) {
  failing.clearHistory();
  for (let index = 0; index < 20; index++) await predictOutOfScope(edge);
  const calls = failing.receivedRequests.length;
  figures.callsWhileOpen = Math.max(figures.callsWhileOpen, calls);
  findings.check(
    calls <= BURST,
    () => `one region ${how}: it still received ${calls} calls for 20 requests`,
  );
}

/** The region is called again after its fault; the other region fails meanwhile, so that only this one can answer. */
async function checkRecovery({ edge, failing, other, how, findings, figures }: FailoverStep) {
  failing.fault = { kind: "none" };
  failing.clearHistory();
  if (other !== undefined) other.fault = { kind: "resets" };
  const recoveredMs = await waitUntil(
    async () => (await predictOutOfScope(edge)).output?.degraded === false,
    RECOVERED_WITHIN_MS,
  );
  if (other !== undefined) other.fault = { kind: "none" };
  findings.check(
    recoveredMs !== undefined,
    () => `after a region ${how}, it received no calls again`,
  );
  figures.recoverMaxMs = Math.max(
    figures.recoverMaxMs,
    Math.round(recoveredMs ?? RECOVERED_WITHIN_MS),
  );
  await waitUntil(
    async () => (await predict(edge, OUT_OF_SCOPE_SAMPLE.text)).output?.degraded === false,
    RECOVERED_WITHIN_MS,
  );
}

async function runFailover(
  system: FaultSystem,
  { samples }: ScenarioSize,
): Promise<ScenarioResult> {
  return await withTwoRegions(system, async ({ edge, proxies }) => {
    const findings = createProblemCollector();
    const figures: FailoverFigures = {
      faults: 0,
      requests: 0,
      errors: 0,
      degraded: 0,
      degradedMaxShare: 0,
      callsWhileOpen: 0,
      recoverMaxMs: 0,
    };
    for (const [how, fault] of Object.entries(faults)) {
      for (const failing of proxies) {
        failing.fault = fault;
        const other = proxies.find((one) => one !== failing);
        const step = { edge, failing, other, how, samples, findings, figures };
        await checkAnswers(step);
        await checkOpenCircuit(step);
        await checkRecovery(step);
      }
      figures.faults++;
    }
    return { figures: { ...figures }, problems: findings.problems };
  });
}

const countCalls = (proxies: TwoRegions["proxies"]) =>
  proxies.reduce(
    (sum, { receivedRequests: seen }) =>
      sum + seen.filter(({ method }) => method === "POST").length,
    0,
  );

/** Extra calls are hedges and retries: beyond one call a request. */
async function runHedgingLoad(
  system: FaultSystem,
  { samples }: ScenarioSize,
): Promise<ScenarioResult> {
  return await withTwoRegions(system, async ({ edge, proxies }) => {
    const findings = createProblemCollector();
    const figures: Record<string, number> = {};
    const count = Math.max(200, samples);
    const measure = async (name: string, fault: Fault) => {
      for (const proxy of proxies) {
        proxy.fault = fault;
        proxy.clearHistory();
      }
      const times: number[] = [];
      for (let index = 0; index < count; index++) {
        const { reply, output } = await predict(edge, OUT_OF_SCOPE_SAMPLE.text, {
          deadlineMs: DEADLINE_MS,
        });
        findings.check(
          output !== undefined && reply.durationMs < DEADLINE_MS + SLACK_MS,
          () => `${name}: ${formatReply(reply)}`,
        );
        times.push(reply.durationMs);
      }
      const extra = countCalls(proxies) - count;
      findings.check(
        extra <= MAX_EXTRA_SHARE * count + BURST,
        () => `${name}: ${extra} more calls than the ${count} requests`,
      );
      figures[`${name}P50Ms`] = quantile(times, 0.5);
      figures[`${name}P99Ms`] = quantile(times, 0.99);
      figures[`${name}ExtraCallsShare`] = extra / count;
      await delay(1_000);
    };
    await measure("healthy", { kind: "none" });
    const delayMs = 50 * (figures["healthyP50Ms"] ?? 0);
    await measure("slow", { kind: "slow", delayMs, share: 0.01, seed: 9 });
    await measure("outage", { kind: "resets" });
    await measure("hanging", { kind: "hangs" });
    return { figures, problems: findings.problems };
  });
}

const row = "region";
export const regionFailover: readonly Scenario[] = [
  {
    group: row,
    name: "one of two fails",
    expected: "the other answers in time; its breaker opens, and closes when it is back",
    isSlow: true,
    run: runFailover,
  },
  {
    group: row,
    name: "hedging, with slow regions and without any",
    expected: "at most 3 % more calls, also when everything is down",
    isSlow: true,
    run: runHedgingLoad,
  },
];
