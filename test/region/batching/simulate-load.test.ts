// Compares the adaptive policy with fixed settings by simulation, for models of different costs. The measures are the
// highest load whose p99 stays within a bound, and the latency under little load.
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
  { name: "no gain from sharing a run", runMs: linearRunMs(0.1, 2) },
  {
    name: "no gain beyond 8 rows, and then a loss",
    runMs: (rows) => 2 + 0.2 * rows + 1.3 * Math.max(0, rows - 8),
  },
  { name: "mostly fixed costs, 2 instances", runMs: linearRunMs(5, 0.2), instances: 2 },
  {
    name: "almost only fixed costs, 2 instances",
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

/** Finds the highest load, as a share of the capacity, whose p99 is at most twice the time of a run of 16 rows. */
async function findMaxUtilization(
  batching: BatchingConfig,
  model: SimulatedModel,
): Promise<number> {
  const boundMs = 2 * model.runMs(16);
  let [passing, failing] = [0, STEPS + 1];
  while (failing - passing > 1) {
    const step = (passing + failing) >> 1;
    const { p99Ms } = await simulateLoad(
      { maxBatchRows: MAX_BATCH_ROWS, ...batching },
      { ...model, requestsPerMs: (capacityOf(model) * step) / STEPS },
    );
    if (p99Ms <= boundMs) passing = step;
    else failing = step;
  }
  return passing / STEPS;
}

describe("the adaptive policy at the latency bound", () => {
  it.each(models)(
    "sustains the load of the best fixed setting, within 4 % of the capacity: $name",
    async (model) => {
      const shares: number[] = [];
      for (const batching of fixed) shares.push(await findMaxUtilization(batching, model));
      expect(await findMaxUtilization(adaptive, model)).toBeGreaterThanOrEqual(
        Math.max(...shares) - 1.01 / STEPS,
      );
    },
  );
});

describe("the adaptive policy under little load", () => {
  it.each(models)("is as fast as no batching: $name", async (model) => {
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
