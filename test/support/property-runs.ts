// Property tests: the number of runs, lower in `npm test` than in `npm run test:all`.

import fc from "fast-check";

/** Default number of runs of a property. */
const DEFAULT_RUNS = 100;
const MIN_RUNS = 20;

/** Share of the full number of runs, set by `test/run.ts`; 1 by default. */
const runShare = Number(process.env["EDGETIER_TEST_RUN_SHARE"] ?? "1");

/** @param runs number of runs in `npm run test:all` */
export const propertyRuns = (runs: number): number =>
  Math.min(runs, Math.max(MIN_RUNS, Math.ceil(runs * runShare)));

fc.configureGlobal({ numRuns: propertyRuns(DEFAULT_RUNS) });
