// The adaptive policy against every fixed setting that one could choose, by simulation: how much load keeps its p99 within a
// bound, for models of different costs; and what it does to latency where there is little load.
import { describe, expect, it } from "vitest";
import type { BatchingConfig } from "../../../src/registry/serving-config.ts";
import { simulateLoad, type SimulatedLoad } from "./simulate-load.ts";

const MAX_BATCH_ROWS = 32;
const STEPS = 25;
const fixed: readonly BatchingConfig[] = [0, 1_000, 5_000].map((maxQueueDelayUs) => ({
  mode: "fixed",
  maxQueueDelayUs,
}));
const adaptive: BatchingConfig = { mode: "adaptive" };

type SimulatedModel = Pick<SimulatedLoad, "runMs" | "instances"> & { readonly name: string };
const linearRunMs = (fixedMs: number, perRowMs: number) => (rows: number) =>
  fixedMs + perRowMs * rows;
const models: readonly SimulatedModel[] = [
  { name: "mostly fixed costs", runMs: linearRunMs(5, 0.2) },
  { name: "as much for a run as for a row", runMs: linearRunMs(0.5, 0.5) },
  { name: "nothing is saved by sharing a run", runMs: linearRunMs(0.1, 2) },
  {
    name: "no gain beyond 8 rows, and then a loss",
    runMs: (rows) => 2 + 0.2 * rows + 1.3 * Math.max(0, rows - 8),
  },
  { name: "mostly fixed costs, 2 instances", runMs: linearRunMs(5, 0.2), instances: 2 },
  {
    name: "hardly anything but fixed costs, 2 instances",
    runMs: linearRunMs(10, 0.05),
    instances: 2,
  },
  {
    name: "as much for a run as for a row, 4 instances",
    runMs: linearRunMs(0.5, 0.5),
    instances: 4,
  },
];

const capacityOf = ({ runMs, instances = 1 }: SimulatedModel) =>
  instances *
  Math.max(...Array.from({ length: MAX_BATCH_ROWS }, (_, index) => (index + 1) / runMs(index + 1)));

/** The highest share of what its instances could answer at most, in steps, at which twice a run of 16 rows bounds the p99. */
async function findMaxUtilization(
  batching: BatchingConfig,
  model: SimulatedModel,
): Promise<number> {
  const boundMs = 2 * model.runMs(16);
  let [holds, fails] = [0, STEPS + 1];
  while (fails - holds > 1) {
    const step = (holds + fails) >> 1;
    const { p99Ms } = await simulateLoad(
      { maxBatchRows: MAX_BATCH_ROWS, ...batching },
      { ...model, requestsPerMs: (capacityOf(model) * step) / STEPS },
    );
    if (p99Ms <= boundMs) holds = step;
    else fails = step;
  }
  return holds / STEPS;
}

describe("the load within a bound is that of the best fixed setting, or 4 % of the capacity less", () => {
  it.each(models)("$name", async (model) => {
    const shares: number[] = [];
    for (const batching of fixed) shares.push(await findMaxUtilization(batching, model));
    expect(await findMaxUtilization(adaptive, model)).toBeGreaterThanOrEqual(
      Math.max(...shares) - 1.01 / STEPS,
    );
  });
});

describe("under little load", () => {
  it.each(models)("nobody waits longer than without batching: $name", async (model) => {
    const load = {
      ...model,
      requestsPerMs: (0.2 * (model.instances ?? 1)) / model.runMs(1),
      requests: 2_000,
    };
    const [off, on] = [
      await simulateLoad({ mode: "off" }, load),
      await simulateLoad(adaptive, load),
    ];
    expect(on.p99Ms).toBeLessThanOrEqual(off.p99Ms + 1);
    expect(on.meanMs).toBeLessThanOrEqual(off.meanMs * 1.02);
  });
});
