// Faults of the only region: the edge gives degraded answers by the deadline, and calls the region again when it recovers.
import { quantile } from "../../../src/toolchain/evaluate/latency.ts";
import type { Fault } from "../../support/fault-proxy.ts";
import { formatReply } from "../lib/http-client.ts";
import { OUT_OF_SCOPE_SAMPLE, predict, CONFIDENT_SAMPLE } from "../lib/intent-checks.ts";
import {
  createProblemCollector,
  type ProblemCollector,
  type ScenarioResult,
  type Scenario,
  type ScenarioSize,
} from "../lib/scenario.ts";
import type { FaultSystem } from "../lib/system-fixture.ts";
import { waitUntil } from "../lib/wait-until.ts";

const DEADLINE_MS = 400;
/** Beyond the deadline: timers of a busy machine are late. */
const SLACK_MS = 250;
/** A breaker that has opened several times in a row asks again after half a minute and a quarter. */
const RECOVERED_WITHIN_MS = 45_000;

const faults: Readonly<Record<string, Fault>> = {
  refused: { kind: "resets" },
  "reset after it took the request": { kind: "halfOpen", resetAfterMs: 30 },
  "500": { kind: "status", status: 500, body: '{"error":"internal"}' },
  "503": { kind: "status", status: 503, body: '{"error":"Exceeds maximum queue size"}' },
  "200 with another body": { kind: "status", status: 200, body: "<html>" },
  hanging: { kind: "hangs" },
  "half-open": { kind: "halfOpen", resetAfterMs: 10_000 },
  "slower than the deadline": { kind: "slow", delayMs: 2 * DEADLINE_MS },
  "cut off half-way": { kind: "truncates" },
};

interface FailingRegionFigures {
  faults: number;
  requests: number;
  degraded: number;
  overDeadlineMaxMs: number;
  recoverMaxMs: number;
  callsToRegion: number;
}

interface FailingRegionStep {
  readonly system: FaultSystem;
  readonly edge: string;
  readonly how: string;
  readonly requests: number;
  readonly findings: ProblemCollector;
  readonly figures: FailingRegionFigures;
}

/** Unsure texts get degraded answers by the deadline, and confident ones their label. */
async function checkDegradedAnswers(step: FailingRegionStep): Promise<void> {
  const { edge, how, requests, findings, figures } = step;
  for (let index = 0; index < requests; index++) {
    const { reply, output } = await predict(edge, OUT_OF_SCOPE_SAMPLE.text, {
      deadlineMs: DEADLINE_MS,
    });
    figures.requests++;
    const isMarked =
      reply.status === 200 && output?.degraded === true && output.degradedBy !== undefined;
    findings.check(
      isMarked && reply.durationMs < DEADLINE_MS + SLACK_MS,
      () => `${how}: ${formatReply(reply)}`,
    );
    figures.degraded += Number(output?.degraded ?? false);
    figures.overDeadlineMaxMs = Math.max(
      figures.overDeadlineMaxMs,
      Math.round(reply.durationMs - DEADLINE_MS),
    );
  }
  const sure = await predict(edge, CONFIDENT_SAMPLE.text, { deadlineMs: DEADLINE_MS });
  findings.check(
    sure.output?.label === CONFIDENT_SAMPLE.label && !sure.output.degraded,
    () => `${how}, a request that needs no region: ${formatReply(sure.reply)}`,
  );
}

async function runRegionFault(step: FailingRegionStep, fault: Fault): Promise<void> {
  const { system, edge, how, findings, figures } = step;
  const isRegionBack = async () =>
    (await predict(edge, OUT_OF_SCOPE_SAMPLE.text)).output?.degraded === false;
  findings.check(
    (await waitUntil(isRegionBack, RECOVERED_WITHIN_MS)) !== undefined,
    () => `before ${how} the region did not answer`,
  );
  system.proxies.region.clearHistory();
  system.proxies.region.fault = fault;
  await checkDegradedAnswers(step);
  figures.callsToRegion += system.proxies.region.receivedRequests.length;
  system.clearFaults();
  const recoveredMs = await waitUntil(isRegionBack, RECOVERED_WITHIN_MS);
  findings.check(
    recoveredMs !== undefined,
    () => `after ${how} the region received no calls again`,
  );
  figures.recoverMaxMs = Math.max(
    figures.recoverMaxMs,
    Math.round(recoveredMs ?? RECOVERED_WITHIN_MS),
  );
  figures.faults++;
}

async function runFailingRegion(
  system: FaultSystem,
  { samples }: ScenarioSize,
): Promise<ScenarioResult> {
  const findings = createProblemCollector();
  const edge = await system.startEdge();
  const figures: FailingRegionFigures = {
    faults: 0,
    requests: 0,
    degraded: 0,
    overDeadlineMaxMs: 0,
    recoverMaxMs: 0,
    callsToRegion: 0,
  };
  const requests = Math.max(8, Math.round(samples / 5));
  try {
    for (const [how, fault] of Object.entries(faults))
      await runRegionFault({ system, edge: edge.url, how, requests, findings, figures }, fault);
    return { figures: { ...figures }, problems: findings.problems };
  } finally {
    await edge.stop();
  }
}

const SLOW_SHARE = 0.01;
const SLOWER_TIMES = 50;

/** The deadline hides the slow ones, and so does a second call to the same region. */
async function runSlowRegion(
  system: FaultSystem,
  { samples }: ScenarioSize,
): Promise<ScenarioResult> {
  const findings = createProblemCollector();
  const edge = await system.startEdge();
  const count = Math.max(100, samples);
  try {
    const measure = async () => {
      const times: number[] = [];
      let degraded = 0;
      for (let index = 0; index < count; index++) {
        const { reply, output } = await predict(edge.url, OUT_OF_SCOPE_SAMPLE.text, {
          deadlineMs: DEADLINE_MS,
        });
        findings.check(
          output !== undefined && reply.durationMs < DEADLINE_MS + SLACK_MS,
          () => `1 % slow: ${formatReply(reply)}`,
        );
        times.push(reply.durationMs);
        degraded += Number(output?.degraded ?? false);
      }
      return { times, degraded };
    };
    await measure();
    const before = await measure();
    const p50Ms = quantile(before.times, 0.5);
    system.proxies.region.clearHistory();
    system.proxies.region.fault = {
      kind: "slow",
      delayMs: SLOWER_TIMES * p50Ms,
      share: SLOW_SHARE,
      seed: 4,
    };
    const during = await measure();
    const slowCalls = system.proxies.region.receivedRequests.filter(
      ({ isFaulty: faulty }) => faulty,
    ).length;
    findings.check(slowCalls > 0, () => "no call was slow");
    const extraCalls = system.proxies.region.receivedRequests.length / count - 1;
    findings.check(extraCalls <= 0.03 + 2 / count, () => `${extraCalls} more calls than requests`);
    return {
      figures: {
        requests: count,
        slowCalls,
        p50Ms: quantile(during.times, 0.5),
        p99Ms: quantile(during.times, 0.99),
        maxMs: Math.max(...during.times),
        degraded: during.degraded,
        extraCallsShare: extraCalls,
      },
      problems: findings.problems,
    };
  } finally {
    await edge.stop();
  }
}

const row = "region";
export const regionFaults: readonly Scenario[] = [
  {
    group: row,
    name: "fails",
    expected: "deadline kept, a degraded answer that says so, asked again when it is back",
    isSlow: true,
    run: runFailingRegion,
  },
  {
    group: row,
    name: "1 % of calls 50 times slower",
    expected: "deadline kept, at most 3 % more calls",
    run: runSlowRegion,
  },
];
