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
  const told: MetricsBatch[] = [];
  const failures: unknown[] = [];
  const state = { network: "ok" as Network, onSend: () => {} };
  const reporter = createMetricsReporter({
    recorder,
    clock,
    isolateId: "i",
    intervalMs: 1_000,
    onBatch: (batch) => told.push(batch),
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
  /** Time goes by, and what is due happens. */
  const pass = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += 500) {
      clock.advance(500);
      for (let turn = 0; turn < 10; turn++) await Promise.resolve();
    }
  };
  const counted = (name = "edgetier_requests_total") =>
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
    told,
    failures,
    background,
    request,
    pass,
    counted,
  };
}

describe("the reporter", () => {
  it("sends what a second's requests have counted in one batch, by the work of the first of them", async () => {
    const { request, pass, sent, background, counted } = reporterFixture();
    for (let count = 0; count < 5; count++) request();
    await pass(500);
    for (let count = 0; count < 5; count++) request();
    expect([sent.length, background.length]).toEqual([0, 1]);
    await pass(500);
    expect([sent.length, counted()]).toEqual([1, 10]);
    await background[0];
    await pass(5_000);
    request();
    await pass(1_000);
    expect([sent.map(({ sequence }) => sequence), counted(), background.length]).toEqual([
      [1, 2],
      11,
      2,
    ]);
  });

  it("sends a batch whose outcome is unknown again as it was, and what came meanwhile after it", async () => {
    const { request, pass, sent, told, state, counted, failures } = reporterFixture();
    state.network = "drops-responses";
    request();
    await pass(1_000);
    request();
    await pass(1_000);
    expect([counted(), failures.length]).toEqual([1, 1]);
    state.network = "ok";
    await pass(4_000);
    expect(sent.map(({ sequence }) => sequence)).toEqual([1, 1, 1, 2]);
    expect([counted(), told.map(({ sequence }) => sequence)]).toEqual([2, [1, 2]]);
  });

  it("waits five seconds for an answer", async () => {
    const { request, pass, state, counted, sent } = reporterFixture();
    state.network = "hangs";
    request();
    await pass(6_000);
    state.network = "ok";
    await pass(1_000);
    expect([sent.length, counted()]).toEqual([2, 1]);
  });

  it("has another request send what the platform has ended without a word", async () => {
    const { clock, request, pass, counted, background } = reporterFixture();
    const { setTimer } = clock;
    clock.setTimer = () => () => {}; // of that request, they never fire
    request();
    clock.setTimer = setTimer;
    await pass(6_500);
    request();
    expect([background.length, counted()]).toEqual([1, 0]);
    await pass(500);
    request();
    expect(background).toHaveLength(2);
    await pass(1_000);
    expect(counted()).toBe(3);
  });

  it("gives a batch up after ten minutes, and says how many events it had", async () => {
    const { request, pass, state, counted, reporter } = reporterFixture();
    state.network = "drops-requests";
    request();
    request();
    await pass(601_000);
    state.network = "ok";
    await reporter.flush();
    await reporter.flush();
    expect([counted(), counted("edgetier_telemetry_dropped_total")]).toEqual([0, 2]);
  });

  it("holds so many series, says how many events had no room, and sends them in batches that are bounded", async () => {
    const { request, pass, sent, counted } = reporterFixture({ maxSeries: 2 * MAX_BATCH_SERIES });
    for (let status = 0; status < 2 * MAX_BATCH_SERIES + 7; status++) request(String(status));
    await pass(3_000);
    expect(sent.map(({ series }) => series.length)).toEqual([
      MAX_BATCH_SERIES,
      MAX_BATCH_SERIES,
      1,
    ]);
    expect([counted(), counted("edgetier_telemetry_dropped_total")]).toEqual([
      2 * MAX_BATCH_SERIES,
      7,
    ]);
  });

  it("leaves it to the next request when its own work has gone on for long enough", async () => {
    const { request, pass, state, background, counted, sent } = reporterFixture();
    state.network = "drops-requests";
    request();
    await pass(60_000);
    await background[0];
    expect(sent.length).toBeLessThan(10);
    state.network = "ok";
    request();
    await pass(3_000);
    expect(counted()).toBe(2);
  });

  it("leaves nothing behind that was counted while its last batch was on its way, though nobody asks any more", async () => {
    const { request, pass, state, sent, counted } = reporterFixture();
    state.onSend = () => (sent.length <= 4 ? request() : undefined);
    request();
    await pass(10_000);
    expect([sent.length, counted()]).toEqual([5, 5]);
  });

  it("counts everything exactly once, whatever becomes of batches and answers", async () => {
    const step = fc.oneof(
      fc.constantFrom<Network>("ok", "drops-requests", "drops-responses", "hangs"),
      fc.constant("request" as const),
      fc.constantFrom(500, 1_500, 8_000),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        const { request, pass, state, counted } = reporterFixture();
        for (const one of steps) {
          if (typeof one === "number") await pass(one);
          else if (one === "request") request();
          else state.network = one;
        }
        state.network = "ok";
        await pass(8_000);
        request();
        await pass(8_000);
        expect(counted()).toBe(steps.filter((one) => one === "request").length + 1);
      }),
      { numRuns: propertyRuns(50) },
    );
  });
});
