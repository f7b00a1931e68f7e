// When the client repeats a call, and when it gives one up: on a clock that is moved by hand, with a server made of answers.
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
      detail: "What was wrong.",
      remedy: "What to do.",
      instance: "r-1",
      retryable: true,
      ...fields,
    }),
    { status, headers },
  );
const models = () => Response.json({ models: [{ model: "toy", aliases: { stable: 1 } }] });

interface Sent {
  readonly atMs: number;
  readonly deadlineMs: string | undefined;
}

/** Answers with the steps in turn, and then with the models. */
function connectionFixture(steps: readonly Step[], options: Partial<ConnectionOptions> = {}) {
  const clock = new ManualClock(1_000);
  const sent: Sent[] = [];
  const left = [...steps];
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
      const step = left.shift() ?? models();
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

/** Until nothing more happens without the clock. */
const settle = () => new Promise((resolve) => setImmediate(resolve));
const captureRejection = (call: Promise<unknown>) =>
  call.then(
    () => undefined,
    (error: unknown) => error,
  );

describe("a call is repeated", () => {
  it.each([
    ["a network error", new TypeError("fetch failed")],
    ["503", problem(503)],
    ["429", problem(429)],
    [
      "503 by a proxy that knows no problem details",
      new Response("<h1>busy</h1>", { status: 503 }),
    ],
  ])("after %s", async (_what, step) => {
    const { connection, sent } = connectionFixture([step]);
    expect(await listModels(connection)).toEqual([{ model: "toy", aliases: { stable: 1 } }]);
    expect(sent).toHaveLength(2);
  });

  it("after as long as retry-after says, in seconds or by a date, and a random time more", async () => {
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
    // Half of the first repetition's 100 ms more, and of the second one's 200.
    expect(sent.map(({ atMs }) => atMs)).toEqual([0, 2_050, 7_100]);
  });

  it("so often and no more", async () => {
    const { connection, sent } = connectionFixture(
      Array.from({ length: 9 }, () => problem(503)),
      { retries: 3 },
    );
    expect(await captureRejection(listModels(connection))).toMatchObject({
      code: "some_code",
      status: 503,
    });
    expect(sent).toHaveLength(4);
    expect(await captureRejection(listModels(connection, { retries: 0 }))).toMatchObject({
      status: 503,
    });
    expect(sent).toHaveLength(5);
  });

  it("never where the time is up before the server wants it again", async () => {
    const { clock, connection, sent } = connectionFixture([problem(429, { "retry-after": "60" })], {
      deadlineMs: 5_000,
    });
    expect(await captureRejection(listModels(connection))).toMatchObject({
      status: 429,
      retryAfterMs: 60_000,
    });
    expect([sent.length, clock.now()]).toEqual([1, 1_000]);
  });

  it.each([
    ["400", problem(400, {}, { retryable: false })],
    ["401", problem(401)],
    ["500", problem(500)],
    ["504", problem(504)],
    ["503 that says it is of no use", problem(503, {}, { retryable: false })],
    ["what is not JSON", new Response("<h1>hello</h1>")],
  ])("not after %s", async (_what, step) => {
    const { connection, sent } = connectionFixture([step]);
    expect(await captureRejection(listModels(connection))).toBeInstanceOf(EdgeTierError);
    expect(sent).toHaveLength(1);
  });

  it("within its time, whatever the server says", async () => {
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
            { deadlineMs, retries: 5, random: () => random },
          );
          let over = false;
          const call = captureRejection(listModels(connection)).then(() => (over = true));
          for (let elapsedMs = 0; elapsedMs < deadlineMs; elapsedMs += 500) {
            await settle();
            clock.advance(Math.min(500, deadlineMs - elapsedMs));
          }
          await call;
          expect(over).toBe(true);
          for (const { atMs, deadlineMs: told } of sent)
            expect(atMs + Number(told)).toBeLessThanOrEqual(deadlineMs + 1);
        },
      ),
      { numRuns: propertyRuns(50) },
    );
  });
});

describe("a deadline", () => {
  it("is told to the edge as what is left of it, less the way, on each try", async () => {
    const { clock, connection, sent } = connectionFixture([problem(503, { "retry-after": "1" })], {
      wayMs: 40,
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

  it("is none that was not named, and half of a very short one is the way's at most", async () => {
    const { connection, sent } = connectionFixture([]);
    await listModels(connection);
    await listModels(connection, { deadlineMs: 20 });
    expect(sent.map(({ deadlineMs }) => deadlineMs)).toEqual([undefined, "10"]);
  });

  it("ends a call that hangs, as the time-out does", async () => {
    for (const options of [{ deadlineMs: 200 }, { timeoutMs: 200 }]) {
      const { clock, connection } = connectionFixture(["hangs"]);
      const call = captureRejection(listModels(connection, options));
      await settle();
      clock.advance(200);
      expect(await call).toMatchObject({
        code: "timeout",
        status: 0,
        message: expect.stringContaining("200 ms"),
      });
    }
  });
});

describe("the caller's signal", () => {
  it("ends a call under way, and its wait for a repetition, with its reason", async () => {
    for (const steps of [["hangs"], [problem(503, { "retry-after": "1" })]] satisfies Step[][]) {
      const { connection, sent } = connectionFixture(steps);
      const controller = new AbortController();
      const call = captureRejection(listModels(connection, { signal: controller.signal }));
      await settle();
      controller.abort("the user left");
      expect(await call).toBe("the user left");
      expect(sent).toHaveLength(1);
    }
  });

  it("that is aborted already lets nothing be sent", async () => {
    const { connection, sent } = connectionFixture([]);
    expect(
      await captureRejection(listModels(connection, { signal: AbortSignal.abort("too late") })),
    ).toBe("too late");
    expect(sent).toEqual([]);
  });

  it("without a reason, as in React Native, gives one", async () => {
    const { connection } = connectionFixture([]);
    const signal = Object.defineProperty(AbortSignal.abort(), "reason", { value: undefined });
    expect(await captureRejection(listModels(connection, { signal }))).toMatchObject({
      code: "aborted",
    });
  });
});

describe("an error", () => {
  it("has what the problem details say", async () => {
    const { connection } = connectionFixture([
      problem(404, { "x-request-id": "r-2" }, { code: "model_not_found", retryable: false }),
    ]);
    const error = await captureRejection(predict(connection, "nothing", "hello"));
    expect(error).toBeInstanceOf(EdgeTierError);
    expect(error).toMatchObject({
      name: "EdgeTierError",
      code: "model_not_found",
      status: 404,
      detail: "What was wrong.",
      remedy: "What to do.",
      requestId: "r-2",
      retryable: false,
      message: "What was wrong. What to do.",
    });
  });

  it("of a network has the address and the cause", async () => {
    const cause = new TypeError("fetch failed");
    const { connection } = connectionFixture([cause], { retries: 0 });
    expect(await captureRejection(listModels(connection))).toMatchObject({
      code: "network",
      status: 0,
      cause,
      detail: expect.stringContaining("https://edge.test"),
    });
  });
});
