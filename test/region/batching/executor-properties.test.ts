// Any sequence of arrivals, departures, expiries and ends of runs: every work is answered exactly once, and rightly.
import { coreErrors } from "../../../src/core/common-errors.ts";
import fc from "fast-check";
import { expect, it } from "vitest";
import type { BatchingConfig } from "../../../src/registry/serving-config.ts";
import {
  createExecutorFixture,
  flushEventLoop,
  createTensors,
  TEST_TIER,
} from "./manual-session.ts";
import { propertyRuns } from "../../support/property-runs.ts";

type Step =
  | {
      readonly kind: "arrive";
      readonly rows: number;
      readonly width: number;
      readonly priority: number;
      readonly inMs: number | undefined;
      readonly padded: boolean;
    }
  | { readonly kind: "leave"; readonly who: number }
  | { readonly kind: "end" | "fail" | "break" }
  | { readonly kind: "pass"; readonly ms: number };

const arrival = fc.record({
  kind: fc.constant("arrive" as const),
  rows: fc.integer({ min: 1, max: 7 }),
  width: fc.integer({ min: 1, max: 3 }),
  priority: fc.integer({ min: 0, max: 4 }),
  inMs: fc.option(fc.integer({ min: -1, max: 40 }), { nil: undefined }),
  padded: fc.boolean(),
});
const step: fc.Arbitrary<Step> = fc.oneof(
  { arbitrary: arrival, weight: 6 },
  { arbitrary: fc.record({ kind: fc.constant("leave" as const), who: fc.nat(30) }), weight: 1 },
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
      kind: fc.constant("pass" as const),
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
const scenario = fc.record({
  steps: fc.array(step, { maxLength: 60 }),
  mode: fc.constantFrom(...Object.keys(modes)),
  timeoutAction: fc.constantFrom("reject" as const, "delay" as const),
  defaultTimeoutMs: fc.constantFrom(0, 0, 25),
  instances: fc.integer({ min: 1, max: 3 }),
});
const MAX_BATCH_ROWS = 4;
const MAX_QUEUE_SIZE = 20;

it("loses nothing, answers nothing twice, makes no batch too large, and keeps the order within a priority", async () => {
  await fc.assert(
    fc.asyncProperty(
      scenario,
      async ({ steps, mode, timeoutAction, defaultTimeoutMs, instances }) => {
        const batching = {
          ...modes[mode],
          maxBatchRows: MAX_BATCH_ROWS,
          queue: {
            timeoutAction,
            defaultTimeoutUs: defaultTimeoutMs * 1_000,
            maxQueueSize: MAX_QUEUE_SIZE,
          },
        };
        const { executor, session, clock, runs, reports } = createExecutorFixture({ instances });
        const sent: {
          readonly id: number;
          readonly rows: number;
          readonly width: number;
          readonly priority: number;
          readonly client: AbortController;
          readonly mayExpire: boolean;
          left: boolean;
          answers: unknown[];
        }[] = [];
        const open = new Set<number>();
        let failed = false;

        const isDue = (
          { id, rows, width, mayExpire, left }: (typeof sent)[number],
          answer: unknown,
        ) => {
          if (Array.isArray(answer))
            return answer.length === rows && answer.every((sum) => sum === id * width);
          if (answer === "request_expired") return timeoutAction === "reject" && mayExpire;
          if (answer === "request_cancelled") return left;
          return answer === "queue_full" || failed;
        };
        const take = (one: Step) => {
          switch (one.kind) {
            case "arrive": {
              const id = sent.length + 1;
              const client = new AbortController();
              const priority = one.priority >= 1 && one.priority <= 3 ? one.priority : 2;
              const mayExpire = one.inMs !== undefined || defaultTimeoutMs > 0;
              const entry = {
                id,
                rows: one.rows,
                width: one.width,
                priority,
                client,
                mayExpire,
                left: false,
                answers: [] as unknown[],
              };
              sent.push(entry);
              const inputs = createTensors(
                Array.from({ length: one.rows }, () => Array.from({ length: one.width }, () => id)),
              );
              const expiresAtMs = one.inMs === undefined ? undefined : clock.now() + one.inMs;
              const padding = one.padded ? { axis: 1, value: 0 } : undefined;
              executor
                .execute({
                  session,
                  tier: TEST_TIER,
                  batching,
                  inputs,
                  priority: one.priority,
                  expiresAtMs,
                  padding,
                  signal: client.signal,
                })
                .then(
                  ({ sum }) => entry.answers.push([...(sum?.data ?? [])]),
                  (error: unknown) =>
                    entry.answers.push((error as { code?: string }).code ?? "broken"),
                );
              return;
            }
            case "leave": {
              const entry = sent[one.who];
              if (entry === undefined) return;
              entry.left = true;
              return entry.client.abort();
            }
            case "pass":
              return clock.advance(one.ms);
            default: {
              const [index] = [...runs.keys()].filter((at) => open.has(at));
              const run = index === undefined ? undefined : runs[index];
              if (run === undefined || index === undefined) return;
              open.delete(index);
              if (one.kind === "end") return run.complete();
              failed = true;
              return run.fail(
                one.kind === "fail" ? coreErrors.sessionFailed("a test") : new Error("a test"),
              );
            }
          }
        };
        let known = 0;
        const after = async () => {
          await flushEventLoop();
          for (; known < runs.length; known++) open.add(known);
          expect(open.size).toBeLessThanOrEqual(instances);
        };
        for (const one of steps) {
          take(one);
          await after();
        }
        for (let round = 0; round < 4 * sent.length + 4; round++) {
          clock.advance(20);
          await after();
          take({ kind: "end" });
          await after();
        }

        for (const entry of sent) {
          expect(entry.answers).toHaveLength(1);
          expect(isDue(entry, entry.answers[0])).toBe(true);
        }
        const started = runs.flatMap((run) => [...new Set(run.rows.map((row) => row[0] ?? 0))]);
        for (const run of runs)
          expect(
            run.rows.length <= MAX_BATCH_ROWS || new Set(run.rows.map((row) => row[0])).size === 1,
          ).toBe(true);
        // Every run is told of, once.
        expect(reports).toHaveLength(runs.length);
        expect(executor.queueStates()).toEqual(
          sent.length === 0
            ? []
            : [{ tier: TEST_TIER, requestCount: 0, rows: 0, oldestAgeMs: 0, runsInFlight: 0 }],
        );
        // No place is lost: as much as the queue may hold goes in.
        let refused = false;
        executor
          .execute({
            session,
            tier: TEST_TIER,
            batching,
            inputs: createTensors(Array.from({ length: MAX_QUEUE_SIZE }, () => 1)),
          })
          .catch(() => (refused = true));
        await after();
        expect(refused).toBe(false);
        // Runs that are tried again, and delayed works, are out of order on purpose.
        fc.pre(!failed && timeoutAction === "reject");
        expect(new Set(started).size).toBe(started.length);
        for (const priority of [1, 2, 3]) {
          const ofPriority = started.filter((id) => sent[id - 1]?.priority === priority);
          expect(ofPriority).toEqual(ofPriority.toSorted((a, b) => a - b));
        }
      },
    ),
    { numRuns: propertyRuns(150) },
  );
}, 60_000);
