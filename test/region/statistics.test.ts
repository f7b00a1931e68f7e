// Triton's inference statistics: counts and durations per request and per run, and their reset on unload.
import { describe, expect, it } from "vitest";
import { ManualClock } from "../../src/core/clock.ts";
import type { BatchRun } from "../../src/region/server/executor.ts";
import type { InferOutcome } from "../../src/region/server/infer.ts";
import { createInferenceStatistics } from "../../src/region/server/statistics.ts";

const TIER = { model: "mood", version: 1, tier: "heavy" };
const run = (fields: Partial<BatchRun> = {}): BatchRun => ({
  tier: TIER,
  requestCount: 1,
  rows: 1,
  reason: "idle",
  queueTimesMs: [0],
  inputMs: 1,
  inferMs: 10,
  outputMs: 2,
  hasFailed: false,
  startedAtMs: 0,
  tracedRequests: [],
  ...fields,
});
const outcome = (fields: Partial<InferOutcome> = {}): InferOutcome => ({
  tier: TIER,
  durationMs: 20,
  preprocessMs: 0,
  isCoalesced: false,
  failure: undefined,
  ...fields,
});
const ms = (count: number, each: number) => ({ count, ns: each * 1e6 });
const none = { count: 0, ns: 0 };

describe("inference statistics", () => {
  it("are zero for a version without requests", () => {
    expect(createInferenceStatistics(new ManualClock(5)).read("mood", 3)).toEqual({
      name: "mood",
      version: "3",
      last_inference: 0,
      inference_count: 0,
      execution_count: 0,
      inference_stats: {
        success: none,
        fail: none,
        queue: none,
        compute_input: none,
        compute_infer: none,
        compute_output: none,
        cache_hit: none,
        cache_miss: none,
      },
      batch_stats: [],
      memory_usage: [],
    });
  });

  it("count rows and runs: each request of a shared run has its full compute time, a batch size has it once", () => {
    const clock = new ManualClock(1_000.75);
    const statistics = createInferenceStatistics(clock);
    statistics.recordRun(run({ requestCount: 3, rows: 4, queueTimesMs: [9, 5, 1] }));
    for (const durationMs of [22, 18, 14]) statistics.recordOutcome(outcome({ durationMs }));
    clock.advance(500);
    statistics.recordRun(run({ inferMs: 6.5 }));
    statistics.recordRun(run({ inferMs: 7.5 }));
    expect(statistics.read("mood", 1)).toMatchObject({
      last_inference: 1_500,
      inference_count: 6,
      execution_count: 3,
      inference_stats: {
        success: ms(3, 54),
        queue: ms(5, 15),
        compute_input: ms(5, 5),
        compute_infer: ms(5, 3 * 10 + 6.5 + 7.5),
        compute_output: ms(5, 10),
      },
      batch_stats: [
        {
          batch_size: 1,
          compute_input: ms(2, 2),
          compute_infer: ms(2, 14),
          compute_output: ms(2, 4),
        },
        {
          batch_size: 4,
          compute_input: ms(1, 1),
          compute_infer: ms(1, 10),
          compute_output: ms(1, 2),
        },
      ],
    });
  });
});

describe("inference statistics of special outcomes", () => {
  it("count the preprocessing of successful requests as input time", () => {
    const statistics = createInferenceStatistics(new ManualClock());
    statistics.recordRun(run());
    statistics.recordOutcome(outcome({ preprocessMs: 3 }));
    statistics.recordOutcome(outcome({ preprocessMs: 3, failure: "REJECTED" }));
    expect(statistics.read("mood", 1).inference_stats.compute_input).toEqual(ms(1, 4));
  });

  it("count coalesced requests as cache hits without run, rows and compute", () => {
    const statistics = createInferenceStatistics(new ManualClock());
    statistics.recordRun(run());
    for (const isCoalesced of [false, true, true])
      statistics.recordOutcome(outcome({ isCoalesced }));
    expect(statistics.read("mood", 1)).toMatchObject({
      inference_count: 1,
      execution_count: 1,
      inference_stats: {
        success: ms(3, 60),
        cache_hit: ms(2, 40),
        cache_miss: none,
        queue: ms(3, 0),
        compute_infer: ms(1, 10),
      },
    });
  });

  it("count failures separately, and exclude failed runs", () => {
    const statistics = createInferenceStatistics(new ManualClock());
    statistics.recordRun(run({ hasFailed: true }));
    statistics.recordOutcome(outcome({ failure: "BACKEND", durationMs: 5 }));
    statistics.recordOutcome(outcome({ failure: "CANCELED", durationMs: 6 }));
    expect(statistics.read("mood", 1)).toMatchObject({
      last_inference: 0,
      inference_count: 0,
      execution_count: 0,
      inference_stats: { success: none, fail: ms(2, 11), queue: none },
      batch_stats: [],
    });
  });
});

describe("inference statistics of a version", () => {
  it("are separate from other versions, and include all tiers", () => {
    const statistics = createInferenceStatistics(new ManualClock());
    statistics.recordRun(run());
    statistics.recordRun(run({ tier: { ...TIER, tier: "light" } }));
    statistics.recordRun(run({ tier: { ...TIER, version: 2 } }));
    expect({
      version1: statistics.read("mood", 1).execution_count,
      version2: statistics.read("mood", 2).execution_count,
    }).toEqual({ version1: 2, version2: 1 });
  });

  it("are reset if the version is unloaded by name, and kept if it is evicted or loaded again", () => {
    const statistics = createInferenceStatistics(new ManualClock());
    const count = () => statistics.read("mood", 1).execution_count;
    statistics.recordRun(run());
    statistics.handleEvent({ event: "model_evicted", model: "mood", version: 1, bytes: 1 });
    statistics.handleEvent({
      event: "model_loaded",
      model: "mood",
      version: 1,
      durationMs: 1,
      bytes: 1,
    });
    statistics.handleEvent({ event: "model_unloaded", model: "mood", version: 2 });
    expect(count()).toBe(1);
    statistics.handleEvent({ event: "model_unloaded", model: "mood", version: 1 });
    statistics.recordRun(run()); // This run was in flight.
    expect(count()).toBe(0);
    statistics.handleEvent({
      event: "model_loaded",
      model: "mood",
      version: 1,
      durationMs: 1,
      bytes: 1,
    });
    statistics.recordRun(run());
    expect(count()).toBe(1);
  });
});
