import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ManualClock } from "../../src/core/clock.ts";
import {
  type MetricsBatch,
  createMetricsAggregate,
} from "../../src/telemetry/metrics-aggregate.ts";
import { createMetricsRecorder } from "../../src/telemetry/metrics-recorder.ts";
import { createMetricsReporter, MAX_BATCH_SERIES } from "../../src/telemetry/metrics-reporter.ts";
import { propertyRuns } from "../support/property-runs.ts";

type Network = "ok" | "drops-requests" | "drops-responses" | "hangs";

function reporterFixture({ maxSeries = 1_000 } = {}) {
  const clock = new ManualClock(1_000_000);
  const recorder = createMetricsRecorder({ clock, maxSeries });
  const aggregate = createMetricsAggregate(10_000);
  const sent: MetricsBatch[] = [];
  const announced: MetricsBatch[] = [];
  const failures: unknown[] = [];
  const state = { network: "ok" as Network, onSend: () => {} };
  const reporter = createMetricsReporter({
    recorder,
    clock,
    isolateId: "i",
    intervalMs: 1_000,
    onBatch: (batch) => announced.push(batch),
    onFailure: (error) => failures.push(error),
    async send(batch) {
      sent.push(batch);
      state.onSend();
      if (state.network === "hangs") await new Promise(() => {});
      if (state.network !== "drops-requests") aggregate.accept(structuredClone(batch), clock.now());
      if (state.network !== "ok") throw new Error("lost");
    },
  });
  const background: Promise<unknown>[] = [];
  const request = (status = "200") => {
    recorder.count("edgetier_requests_total", { route: "predict", model: "toy", status });
    reporter.schedule((work) => background.push(work));
  };
  /** Advances the clock in small steps, and runs due work. */
  const advance = async (ms: number) => {
    for (let elapsedMs = 0; elapsedMs < ms; elapsedMs += 500) {
      clock.advance(500);
      for (let turn = 0; turn < 10; turn++) await Promise.resolve();
    }
  };
  const countEvents = (name = "edgetier_requests_total") =>
    aggregate
      .listSeries()
      .reduce(
        (sum, series) =>
          series.name === name && series.kind === "counter" ? sum + series.value : sum,
        0,
      );
  return {
    clock,
    recorder,
    reporter,
    state,
    sent,
    announced,
    failures,
    background,
    request,
    advance,
    countEvents,
  };
}

describe("the reporter", () => {
  it("sends one batch per second, in the background of the second's first request", async () => {
    const { request, advance, sent, background, countEvents } = reporterFixture();
    for (let count = 0; count < 5; count++) request();
    await advance(500);
    for (let count = 0; count < 5; count++) request();
    expect({ sent: sent.length, background: background.length }).toEqual({
      sent: 0,
      background: 1,
    });
    await advance(500);
    expect({ sent: sent.length, events: countEvents() }).toEqual({ sent: 1, events: 10 });
    await background[0];
    await advance(5_000);
    request();
    await advance(1_000);
    expect({
      sequences: sent.map(({ sequence }) => sequence),
      events: countEvents(),
      background: background.length,
    }).toEqual({ sequences: [1, 2], events: 11, background: 2 });
  });

  it("sends an unconfirmed batch again unchanged, and later events after it", async () => {
    const { request, advance, sent, announced, state, countEvents, failures } = reporterFixture();
    state.network = "drops-responses";
    request();
    await advance(1_000);
    request();
    await advance(1_000);
    expect({ events: countEvents(), failures: failures.length }).toEqual({
      events: 1,
      failures: 1,
    });
    state.network = "ok";
    await advance(4_000);
    expect(sent.map(({ sequence }) => sequence)).toEqual([1, 1, 1, 2]);
    expect({
      events: countEvents(),
      announced: announced.map(({ sequence }) => sequence),
    }).toEqual({ events: 2, announced: [1, 2] });
  });
});

describe("the reporter after a failure", () => {
  it("waits five seconds for a response", async () => {
    const { request, advance, state, countEvents, sent } = reporterFixture();
    state.network = "hangs";
    request();
    await advance(6_000);
    state.network = "ok";
    await advance(1_000);
    expect({ sent: sent.length, events: countEvents() }).toEqual({ sent: 2, events: 1 });
  });

  it("lets another request send if the platform terminated the first", async () => {
    const { clock, request, advance, countEvents, background } = reporterFixture();
    const { setTimer } = clock;
    clock.setTimer = () => () => {}; // The terminated request's timers never fire.
    request();
    clock.setTimer = setTimer;
    await advance(6_500);
    request();
    expect({ background: background.length, events: countEvents() }).toEqual({
      background: 1,
      events: 0,
    });
    await advance(500);
    request();
    expect(background).toHaveLength(2);
    await advance(1_000);
    expect(countEvents()).toBe(3);
  });
});

describe("the reporter's limits", () => {
  it("discard a batch after ten minutes, and count its events", async () => {
    const { request, advance, state, countEvents, reporter } = reporterFixture();
    state.network = "drops-requests";
    request();
    request();
    await advance(601_000);
    state.network = "ok";
    await reporter.flush();
    await reporter.flush();
    expect({
      events: countEvents(),
      dropped: countEvents("edgetier_telemetry_dropped_total"),
    }).toEqual({ events: 0, dropped: 2 });
  });

  it("bound the series and the size of batches, and count events without room", async () => {
    const { request, advance, sent, countEvents } = reporterFixture({
      maxSeries: 2 * MAX_BATCH_SERIES,
    });
    for (let status = 0; status < 2 * MAX_BATCH_SERIES + 7; status++) request(String(status));
    await advance(3_000);
    expect(sent.map(({ series }) => series.length)).toEqual([
      MAX_BATCH_SERIES,
      MAX_BATCH_SERIES,
      1,
    ]);
    expect({
      events: countEvents(),
      dropped: countEvents("edgetier_telemetry_dropped_total"),
    }).toEqual({ events: 2 * MAX_BATCH_SERIES, dropped: 7 });
  });

  it("end a request's background work, which the next request continues", async () => {
    const { request, advance, state, background, countEvents, sent } = reporterFixture();
    state.network = "drops-requests";
    request();
    await advance(60_000);
    await background[0];
    expect(sent.length).toBeLessThan(10);
    state.network = "ok";
    request();
    await advance(3_000);
    expect(countEvents()).toBe(2);
  });
});

describe("the reporter's counts", () => {
  it("include events that arrive during the last send", async () => {
    const { request, advance, state, sent, countEvents } = reporterFixture();
    state.onSend = () => (sent.length <= 4 ? request() : undefined);
    request();
    await advance(10_000);
    expect({ sent: sent.length, events: countEvents() }).toEqual({ sent: 5, events: 5 });
  });

  it("are exact for any loss of batches and responses", async () => {
    const step = fc.oneof(
      fc.constantFrom<Network>("ok", "drops-requests", "drops-responses", "hangs"),
      fc.constant("request" as const),
      fc.constantFrom(500, 1_500, 8_000),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        const { request, advance, state, countEvents } = reporterFixture();
        for (const step of steps) {
          if (typeof step === "number") await advance(step);
          else if (step === "request") request();
          else state.network = step;
        }
        state.network = "ok";
        await advance(8_000);
        request();
        await advance(8_000);
        expect(countEvents()).toBe(steps.filter((step) => step === "request").length + 1);
      }),
      { numRuns: propertyRuns(50) },
    );
  });
});
