// A model with batching off, fixed and adaptive: highest rates, latencies at shares of them, and whether batching costs
// anything where there is nothing to batch.
import { rounded } from "../lib/report.ts";
import { type Bench, type PartResult, withTargets } from "./bench.ts";
import { type Case, highestRates, latencyRows, type Row } from "./compare.ts";
import { startRegion } from "./target.ts";
import type { Workload } from "./workload.ts";

/** Of each case's own highest rate. */
const SHARES = [0.9, 0.5];
/** Of the highest rate without batching: hardly ever two requests at a time. */
const LOW_LOAD = 0.05;

interface Batched extends Case {
  readonly mode: string;
}

export async function comparePolicies(
  { store, measuring }: Bench,
  workload: Workload,
): Promise<PartResult> {
  const { model } = workload;
  return await withTargets(async (add) => {
    const start = async (mode: string): Promise<Batched> => {
      const target = await add(startRegion(store, model, { EDGETIER_REGION_BATCHING: mode }));
      return { mode, name: `${model}, ${mode}`, target, workload };
    };
    const off = await start("off");
    const batched = [await start("fixed"), await start("adaptive")];
    const cases = [off, ...batched];

    const highest = await highestRates(cases, measuring);
    const rateOf = (one: Case) => highest.get(one) ?? Number.NaN;
    const rows: Row[] = [];
    for (const share of SHARES) {
      const rates = new Map(cases.map((one) => [one, share * rateOf(one)]));
      rows.push(
        ...(await latencyRows(rates, `${share * 100} % of its highest rate`, measuring)).values(),
      );
    }
    const low = await latencyRows(
      new Map(cases.map((one) => [one, LOW_LOAD * rateOf(off)])),
      "low load",
      { ...measuring, rounds: 1 },
    );

    const figures: Record<string, number> = { [`highestRate.${model}.off`]: rounded(rateOf(off)) };
    for (const one of batched) {
      const added = (name: "p50Ms" | "p99Ms") =>
        rounded(Number(low.get(one)?.[name]) - Number(low.get(off)?.[name]));
      figures[`highestRate.${model}.${one.mode}`] = rounded(rateOf(one));
      figures[`batchedVsUnbatchedRatio.${model}.${one.mode}`] = rounded(rateOf(one) / rateOf(off));
      figures[`lowLoadAddedP50Ms.${model}.${one.mode}`] = added("p50Ms");
      figures[`lowLoadAddedP99Ms.${model}.${one.mode}`] = added("p99Ms");
    }
    return { rows: [...rows, ...low.values()], figures };
  });
}
