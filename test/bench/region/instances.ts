// One to four session instances of a model, one thread each.
import { roundToFourDigits } from "../lib/report.ts";
import { type BenchContext, type PartResult, withTargets } from "./bench-context.ts";
import { type BenchCase, findHighestRates, measureLatencyRows } from "./compare-cases.ts";
import { startRegion } from "./target.ts";
import type { Workload } from "./workload.ts";

const COUNTS = [1, 2, 3, 4];
const SHARE = 0.9;

export async function compareInstances(
  { store, trialSettings }: BenchContext,
  workload: Workload,
): Promise<PartResult> {
  return await withTargets(async (add) => {
    const cases = new Map<number, BenchCase>();
    for (const count of COUNTS) {
      const target = await add(
        startRegion(store, workload.model, { EDGETIER_REGION_INSTANCES: `${count}` }),
      );
      cases.set(count, { name: `${workload.model}, instances: ${count}`, target, workload });
    }
    const highest = await findHighestRates([...cases.values()], trialSettings);
    const rates = new Map([...highest].map(([benchCase, rate]) => [benchCase, SHARE * rate]));
    const rows = await measureLatencyRows(
      rates,
      `${SHARE * 100} % of its highest rate`,
      trialSettings,
    );
    const figures = Object.fromEntries(
      [...cases].map(([count, one]) => [
        `highestRate.${workload.model}.instances${count}`,
        roundToFourDigits(highest.get(one) ?? Number.NaN),
      ]),
    );
    return { rows: [...rows.values()], figures };
  });
}
