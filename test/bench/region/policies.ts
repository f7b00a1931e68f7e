// A model with batching off, fixed and adaptive: highest rates, latencies at shares of them, and the cost of
// batching without anything to batch.
import { roundToFourDigits } from "../lib/report.ts";
import { type BenchContext, type PartResult, withTargets } from "./bench-context.ts";
import { type BenchCase, findHighestRates, measureLatencyRows, type Row } from "./compare-cases.ts";
import { startRegion } from "./target.ts";
import type { Workload } from "./workload.ts";

/** Loads, as shares of each case's own highest rate. */
const SHARES = [0.9, 0.5];
/** Load at which requests rarely overlap, as a share of the highest rate without batching. */
const LOW_LOAD = 0.05;

interface BatchingCase extends BenchCase {
  readonly mode: string;
}

export async function comparePolicies(
  { store, trialSettings }: BenchContext,
  workload: Workload,
): Promise<PartResult> {
  const { model } = workload;
  return await withTargets(async (add) => {
    const start = async (mode: string): Promise<BatchingCase> => {
      const target = await add(startRegion(store, model, { EDGETIER_REGION_BATCHING: mode }));
      return { mode, name: `${model}, ${mode}`, target, workload };
    };
    const off = await start("off");
    const batched = [await start("fixed"), await start("adaptive")];
    const cases = [off, ...batched];

    const highest = await findHighestRates(cases, trialSettings);
    const rateOf = (benchCase: BenchCase) => highest.get(benchCase) ?? Number.NaN;
    const rows: Row[] = [];
    for (const share of SHARES) {
      const rates = new Map(cases.map((benchCase) => [benchCase, share * rateOf(benchCase)]));
      rows.push(
        ...(
          await measureLatencyRows(rates, `${share * 100} % of its highest rate`, trialSettings)
        ).values(),
      );
    }
    const low = await measureLatencyRows(
      new Map(cases.map((benchCase) => [benchCase, LOW_LOAD * rateOf(off)])),
      "low load",
      { ...trialSettings, rounds: 1 },
    );

    const figures: Record<string, number> = {
      [`highestRate.${model}.off`]: roundToFourDigits(rateOf(off)),
    };
    for (const one of batched) {
      const added = (name: "p50Ms" | "p99Ms") =>
        roundToFourDigits(Number(low.get(one)?.[name]) - Number(low.get(off)?.[name]));
      figures[`highestRate.${model}.${one.mode}`] = roundToFourDigits(rateOf(one));
      figures[`batchedVsUnbatchedRatio.${model}.${one.mode}`] = roundToFourDigits(
        rateOf(one) / rateOf(off),
      );
      figures[`lowLoadAddedP50Ms.${model}.${one.mode}`] = added("p50Ms");
      figures[`lowLoadAddedP99Ms.${model}.${one.mode}`] = added("p99Ms");
    }
    return { rows: [...rows, ...low.values()], figures };
  });
}
