import fc from "fast-check";
import { expect, it } from "vitest";
// Executor properties: for any sequence of arrivals, disconnects, timeouts and ends of runs, every request gets exactly
// one correct result.
import { coreErrors } from "../../../src/core/common-errors.ts";
import type { BatchingConfig } from "../../../src/registry/serving-config.ts";
import { propertyRuns } from "../../support/property-runs.ts";
import {
  createExecutorFixture,
  flushEventLoop,
  createTensors,
  type ManualRun,
  TEST_TIER,
} from "./manual-session.ts";

type Step =
  | {
      readonly kind: "arrive";
      readonly rows: number;
      readonly width: number;
      readonly priority: number;
      readonly expiresInMs: number | undefined;
      readonly isPadded: boolean;
    }
  | { readonly kind: "disconnect"; readonly requestIndex: number }
  | { readonly kind: "end" | "fail" | "break" }
  | { readonly kind: "advance"; readonly ms: number };

const arrivalStep = fc.record({
  kind: fc.constant("arrive" as const),
  rows: fc.integer({ min: 1, max: 7 }),
  width: fc.integer({ min: 1, max: 3 }),
  priority: fc.integer({ min: 0, max: 4 }),
  expiresInMs: fc.option(fc.integer({ min: -1, max: 40 }), { nil: undefined }),
  isPadded: fc.boolean(),
});
const anyStep: fc.Arbitrary<Step> = fc.oneof(
  { arbitrary: arrivalStep, weight: 6 },
  {
    arbitrary: fc.record({ kind: fc.constant("disconnect" as const), requestIndex: fc.nat(30) }),
    weight: 1,
  },
  {
    arbitrary: fc.record({
      kind: fc.constantFrom(
        "end" as const,
        "end" as const,
        "end" as const,
        "fail" as const,
        "break" as const,
      ),
    }),
    weight: 4,
  },
  {
    arbitrary: fc.record({
      kind: fc.constant("advance" as const),
      ms: fc.integer({ min: 1, max: 20 }),
    }),
    weight: 3,
  },
);
const modes: Readonly<Record<string, BatchingConfig>> = {
  off: { mode: "off" },
  free: {},
  delaying: { maxQueueDelayUs: 15_000 },
  preferring: { preferredBatchRows: [2, 4], maxQueueDelayUs: 15_000 },
  adaptive: { mode: "adaptive" },
};
const scenarios = fc.record({
  steps: fc.array(anyStep, { maxLength: 60 }),
  mode: fc.constantFrom(...Object.keys(modes)),
  timeoutAction: fc.constantFrom("reject" as const, "delay" as const),
  defaultTimeoutMs: fc.constantFrom(0, 0, 25),
  instances: fc.integer({ min: 1, max: 3 }),
});
const MAX_BATCH_ROWS = 4;
const MAX_QUEUE_SIZE = 20;

type Scenario = typeof scenarios extends fc.Arbitrary<infer Value> ? Value : never;
type Arrival = Extract<Step, { readonly kind: "arrive" }>;

/** A request that was sent, and everything that it got in return. */
interface SentRequest {
  readonly id: number;
  readonly rows: number;
  readonly width: number;
  readonly priority: number;
  readonly client: AbortController;
  readonly canExpire: boolean;
  hasDisconnected: boolean;
  readonly results: unknown[];
}

function createSentRequest(
  id: number,
  { rows, width, priority, expiresInMs }: Arrival,
  defaultTimeoutMs: number,
): SentRequest {
  return {
    id,
    rows,
    width,
    priority: priority >= 1 && priority <= 3 ? priority : 2,
    client: new AbortController(),
    canExpire: expiresInMs !== undefined || defaultTimeoutMs > 0,
    hasDisconnected: false,
    results: [],
  };
}

/** Tensors whose every value is the id of the request. */
const createRequestTensors = ({ id, rows, width }: SentRequest) =>
  createTensors(Array.from({ length: rows }, () => Array.from({ length: width }, () => id)));

/** Tracks the unfinished runs of a manual session, and ends them in their order. */
function trackRuns(runs: readonly ManualRun[], instances: number) {
  const openRuns = new Set<number>();
  let knownRuns = 0;
  let hasFailedRun = false;
  return {
    hasFailedRun: () => hasFailedRun,
    async settle(): Promise<void> {
      await flushEventLoop();
      for (; knownRuns < runs.length; knownRuns++) openRuns.add(knownRuns);
      expect(openRuns.size).toBeLessThanOrEqual(instances);
    },
    endOldestRun(kind: "end" | "fail" | "break"): void {
      const index = [...runs.keys()].find((at) => openRuns.has(at));
      const run = index === undefined ? undefined : runs[index];
      if (run === undefined || index === undefined) return;
      openRuns.delete(index);
      if (kind === "end") return run.complete();
      hasFailedRun = true;
      run.fail(kind === "fail" ? coreErrors.sessionFailed("a test") : new Error("a test"));
    },
  };
}

/** Plays the steps of a scenario on an executor. */
function createScenarioPlayer({ mode, timeoutAction, defaultTimeoutMs, instances }: Scenario) {
  const queue = {
    timeoutAction,
    defaultTimeoutUs: defaultTimeoutMs * 1_000,
    maxQueueSize: MAX_QUEUE_SIZE,
  };
  const batching = { ...modes[mode], maxBatchRows: MAX_BATCH_ROWS, queue };
  const fixture = createExecutorFixture({ instances });
  const { executor, session, clock, runs } = fixture;
  const { settle, endOldestRun, hasFailedRun } = trackRuns(runs, instances);
  const sent: SentRequest[] = [];

  function arrive(arrival: Arrival): void {
    const { priority, expiresInMs, isPadded } = arrival;
    const request = createSentRequest(sent.length + 1, arrival, defaultTimeoutMs);
    sent.push(request);
    executor
      .execute({
        session,
        tier: TEST_TIER,
        batching,
        inputs: createRequestTensors(request),
        priority,
        expiresAtMs: expiresInMs === undefined ? undefined : clock.now() + expiresInMs,
        padding: isPadded ? { axis: 1, value: 0 } : undefined,
        signal: request.client.signal,
      })
      .then(
        ({ sum }) => request.results.push([...(sum?.data ?? [])]),
        (error: unknown) => request.results.push((error as { code?: string }).code ?? "broken"),
      );
  }

  function disconnect(requestIndex: number): void {
    const request = sent[requestIndex];
    if (request === undefined) return;
    request.hasDisconnected = true;
    request.client.abort();
  }

  function applyStep(step: Step): void {
    if (step.kind === "arrive") arrive(step);
    else if (step.kind === "disconnect") disconnect(step.requestIndex);
    else if (step.kind === "advance") clock.advance(step.ms);
    else endOldestRun(step.kind);
  }

  /** Ends all runs, until every request has its result. */
  async function drain(): Promise<void> {
    for (let round = 0; round < 4 * sent.length + 4; round++) {
      clock.advance(20);
      await settle();
      endOldestRun("end");
      await settle();
    }
  }
  return { ...fixture, batching, sent, applyStep, settle, drain, hasFailedRun };
}

type ScenarioPlayer = ReturnType<typeof createScenarioPlayer>;

function isAllowedResult(
  { id, rows, width, canExpire, hasDisconnected }: SentRequest,
  result: unknown,
  { timeoutAction, hasFailedRun }: { timeoutAction: string; hasFailedRun: boolean },
): boolean {
  if (Array.isArray(result))
    return result.length === rows && result.every((sum) => sum === id * width);
  if (result === "request_expired") return timeoutAction === "reject" && canExpire;
  if (result === "request_cancelled") return hasDisconnected;
  return result === "queue_full" || hasFailedRun;
}

function expectOneResultEach(player: ScenarioPlayer, timeoutAction: string): void {
  const hasFailedRun = player.hasFailedRun();
  for (const request of player.sent) {
    expect(request.results).toHaveLength(1);
    const [result] = request.results;
    expect({
      result,
      isAllowed: isAllowedResult(request, result, { timeoutAction, hasFailedRun }),
    }).toEqual({ result, isAllowed: true });
  }
}

function expectValidRuns({ runs, reports, executor, sent }: ScenarioPlayer): void {
  for (const { rows } of runs)
    expect(rows.length <= MAX_BATCH_ROWS || new Set(rows.map((row) => row[0])).size === 1).toBe(
      true,
    );
  // Every run is reported once.
  expect(reports).toHaveLength(runs.length);
  expect(executor.queueStates()).toEqual(
    sent.length === 0
      ? []
      : [{ tier: TEST_TIER, requestCount: 0, rows: 0, oldestAgeMs: 0, runsInFlight: 0 }],
  );
}

/** Sends as many rows as the queue can hold; true shows that no place is lost. */
async function canFillQueue(player: ScenarioPlayer): Promise<boolean> {
  const { executor, session, batching } = player;
  let isRejected = false;
  executor
    .execute({
      session,
      tier: TEST_TIER,
      batching,
      inputs: createTensors(Array.from({ length: MAX_QUEUE_SIZE }, () => 1)),
    })
    .catch(() => (isRejected = true));
  await player.settle();
  return !isRejected;
}

function expectPriorityOrder(started: readonly number[], sent: readonly SentRequest[]): void {
  expect(new Set(started).size).toBe(started.length);
  for (const priority of [1, 2, 3]) {
    const ids = started.filter((id) => sent[id - 1]?.priority === priority);
    expect(ids).toEqual(ids.toSorted((a, b) => a - b));
  }
}

it("an executor loses no request, answers each once, and keeps batch size and order", async () => {
  await fc.assert(
    fc.asyncProperty(scenarios, async (scenario) => {
      const player = createScenarioPlayer(scenario);
      const { timeoutAction } = scenario;
      for (const step of scenario.steps) {
        player.applyStep(step);
        await player.settle();
      }
      await player.drain();

      expectOneResultEach(player, timeoutAction);
      expectValidRuns(player);
      const started = player.runs.flatMap((run) => [
        ...new Set(run.rows.map((row) => row[0] ?? 0)),
      ]);
      expect(await canFillQueue(player)).toBe(true);
      // Retries and delayed requests are out of order on purpose.
      fc.pre(!player.hasFailedRun() && timeoutAction === "reject");
      expectPriorityOrder(started, player.sent);
    }),
    { numRuns: propertyRuns(150) },
  );
}, 60_000);
