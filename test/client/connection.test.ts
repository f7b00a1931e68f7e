// Connection: retries, deadlines and cancellation, on a manual clock with scripted responses.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  connect,
  type ConnectionOptions,
  EdgeTierError,
  listModels,
  predict,
} from "../../src/client/index.ts";
import { ManualClock } from "../../src/core/clock.ts";
import { propertyRuns } from "../support/property-runs.ts";

type Step = Response | Error | "hangs";

const problem = (status: number, headers: Record<string, string> = {}, fields: object = {}) =>
  new Response(
    JSON.stringify({
      code: "some_code",
      status,
      detail: "Problem.",
      remedy: "Remedy.",
      instance: "r-1",
      retryable: true,
      ...fields,
    }),
    { status, headers },
  );
const models = () => Response.json({ models: [{ model: "toy", aliases: { stable: 1 } }] });

interface SentRequest {
  readonly atMs: number;
  readonly deadlineMs: string | undefined;
}

/** Responds with one step per request, and with the model list after the last step. */
function connectionFixture(steps: readonly Step[], options: Partial<ConnectionOptions> = {}) {
  const clock = new ManualClock(1_000);
  const sent: SentRequest[] = [];
  const remainingSteps = [...steps];
  const connection = connect({
    url: "https://edge.test/",
    clock,
    random: () => 0,
    ...options,
    async fetch(_url, init) {
      const headers = new Headers(init?.headers);
      sent.push({
        atMs: clock.now() - 1_000,
        deadlineMs: headers.get("x-deadline-ms") ?? undefined,
      });
      const step = remainingSteps.shift() ?? models();
      if (step instanceof Error) throw step;
      if (step !== "hangs") return step;
      return await new Promise<never>((_resolve, reject) =>
        init?.signal?.addEventListener("abort", () =>
          reject(new DOMException("aborted", "AbortError")),
        ),
      );
    },
  });
  return { clock, connection, sent };
}

/** Runs all work that does not wait for the clock. */
const settle = () => new Promise((resolve) => setImmediate(resolve));
const captureRejection = (call: Promise<unknown>) =>
  call.then(
    () => undefined,
    (error: unknown) => error,
  );

describe("a retry", () => {
  it.each([
    ["a network error", new TypeError("fetch failed")],
    ["503", problem(503)],
    ["429", problem(429)],
    ["503 of a proxy without problem details", new Response("<h1>busy</h1>", { status: 503 })],
  ])("follows %s", async (_case, step) => {
    const { connection, sent } = connectionFixture([step]);
    expect(await listModels(connection)).toEqual([{ model: "toy", aliases: { stable: 1 } }]);
    expect(sent).toHaveLength(2);
  });

  it("waits for retry-after, in seconds or as a date, plus random jitter", async () => {
    const date = new Date(1_000 + 2_000 + 5_000).toUTCString();
    const { clock, connection, sent } = connectionFixture(
      [problem(503, { "retry-after": "2" }), problem(429, { "retry-after": date })],
      { random: () => 0.5 },
    );
    const call = listModels(connection);
    for (const untilMs of [2_049, 2_050, 7_099, 7_100]) {
      await settle();
      clock.advance(untilMs - (clock.now() - 1_000));
    }
    await call;
    // The jitter is half of 100 ms, then half of 200 ms.
    expect(sent.map(({ atMs }) => atMs)).toEqual([0, 2_050, 7_100]);
  });
});

describe("retry limits", () => {
  it("stop after maxRetries", async () => {
    const { connection, sent } = connectionFixture(
      Array.from({ length: 9 }, () => problem(503)),
      { maxRetries: 3 },
    );
    expect(await captureRejection(listModels(connection))).toMatchObject({
      code: "some_code",
      status: 503,
    });
    expect(sent).toHaveLength(4);
    expect(await captureRejection(listModels(connection, { maxRetries: 0 }))).toMatchObject({
      status: 503,
    });
    expect(sent).toHaveLength(5);
  });

  it("rule out a retry if retry-after exceeds the remaining time", async () => {
    const { clock, connection, sent } = connectionFixture([problem(429, { "retry-after": "60" })], {
      deadlineMs: 5_000,
    });
    expect(await captureRejection(listModels(connection))).toMatchObject({
      status: 429,
      retryAfterMs: 60_000,
    });
    expect({ requests: sent.length, nowMs: clock.now() }).toEqual({ requests: 1, nowMs: 1_000 });
  });

  it.each([
    ["400", problem(400, {}, { retryable: false })],
    ["401", problem(401)],
    ["500", problem(500)],
    ["504", problem(504)],
    ["503 that is marked as not retryable", problem(503, {}, { retryable: false })],
    ["a response that is not JSON", new Response("<h1>hello</h1>")],
  ])("rule out a retry after %s", async (_case, step) => {
    const { connection, sent } = connectionFixture([step]);
    expect(await captureRejection(listModels(connection))).toBeInstanceOf(EdgeTierError);
    expect(sent).toHaveLength(1);
  });
});

describe("a call with retries", () => {
  it("ends within its deadline, for any server", async () => {
    const steps = fc.array(
      fc.record({ status: fc.constantFrom(429, 503), afterS: fc.integer({ min: 0, max: 5 }) }),
      { maxLength: 6 },
    );
    await fc.assert(
      fc.asyncProperty(
        steps,
        fc.integer({ min: 1, max: 8_000 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        async (steps, deadlineMs, random) => {
          const { clock, connection, sent } = connectionFixture(
            steps.map(({ status, afterS }) => problem(status, { "retry-after": String(afterS) })),
            { deadlineMs, maxRetries: 5, random: () => random },
          );
          let hasEnded = false;
          const call = captureRejection(listModels(connection)).then(() => (hasEnded = true));
          for (let elapsedMs = 0; elapsedMs < deadlineMs; elapsedMs += 500) {
            await settle();
            clock.advance(Math.min(500, deadlineMs - elapsedMs));
          }
          await call;
          expect(hasEnded).toBe(true);
          for (const { atMs, deadlineMs: sentDeadlineMs } of sent)
            expect(atMs + Number(sentDeadlineMs)).toBeLessThanOrEqual(deadlineMs + 1);
        },
      ),
      { numRuns: propertyRuns(50) },
    );
  });
});

describe("a deadline", () => {
  it("is sent on each try as the remaining time, less the round trip", async () => {
    const { clock, connection, sent } = connectionFixture([problem(503, { "retry-after": "1" })], {
      roundTripMs: 40,
    });
    const call = listModels(connection, { deadlineMs: 3_000 });
    await settle();
    clock.advance(1_000);
    await call;
    expect(sent).toEqual([
      { atMs: 0, deadlineMs: "2960" },
      { atMs: 1_000, deadlineMs: "1960" },
    ]);
  });

  it("is optional, and is shortened by at most half for the round trip", async () => {
    const { connection, sent } = connectionFixture([]);
    await listModels(connection);
    await listModels(connection, { deadlineMs: 20 });
    expect(sent).toEqual([
      { atMs: 0, deadlineMs: undefined },
      { atMs: 0, deadlineMs: "10" },
    ]);
  });

  it.each([{ deadlineMs: 200 }, { timeoutMs: 200 }])(
    "ends a call that hangs: %o",
    async (options) => {
      const { clock, connection, sent } = connectionFixture(["hangs"]);
      let hasEnded = false;
      const call = captureRejection(listModels(connection, options)).finally(
        () => (hasEnded = true),
      );
      await settle();
      clock.advance(199);
      await settle();
      expect(hasEnded).toBe(false);
      clock.advance(1);
      expect(await call).toMatchObject({ code: "timeout", status: 0, retryable: false });
      expect(sent).toHaveLength(1);
    },
  );
});

describe("the caller's signal", () => {
  it("ends a request in flight and the delay before a retry, with its reason", async () => {
    for (const steps of [["hangs"], [problem(503, { "retry-after": "1" })]] satisfies Step[][]) {
      const { connection, sent } = connectionFixture(steps);
      const controller = new AbortController();
      const call = captureRejection(listModels(connection, { signal: controller.signal }));
      await settle();
      controller.abort("user left");
      expect(await call).toBe("user left");
      expect(sent).toHaveLength(1);
    }
  });

  it("prevents any request if it is already aborted", async () => {
    const { connection, sent } = connectionFixture([]);
    expect(
      await captureRejection(listModels(connection, { signal: AbortSignal.abort("too late") })),
    ).toBe("too late");
    expect(sent).toEqual([]);
  });

  it("is replaced by an error with the code aborted if it has no reason, as in React Native", async () => {
    const { connection } = connectionFixture([]);
    const signal = Object.defineProperty(AbortSignal.abort(), "reason", { value: undefined });
    expect(await captureRejection(listModels(connection, { signal }))).toMatchObject({
      code: "aborted",
    });
  });
});

describe("an error", () => {
  it("has the fields of the problem details", async () => {
    const { connection } = connectionFixture([
      problem(404, { "x-request-id": "r-2" }, { code: "model_not_found", retryable: false }),
    ]);
    const error = await captureRejection(predict(connection, "nothing", "hello"));
    expect(error).toBeInstanceOf(EdgeTierError);
    expect(error).toMatchObject({
      name: "EdgeTierError",
      code: "model_not_found",
      status: 404,
      detail: "Problem.",
      remedy: "Remedy.",
      requestId: "r-2",
      retryable: false,
      message: "Problem. Remedy.",
    });
  });

  it("of the network has the cause", async () => {
    const cause = new TypeError("fetch failed");
    const { connection } = connectionFixture([cause], { maxRetries: 0 });
    expect(await captureRejection(listModels(connection))).toMatchObject({
      code: "network",
      status: 0,
      retryable: true,
      cause,
    });
  });
});
