// The table of faults in its short form, without what takes long: `npm run test:faults` prints what each scenario reached, and has all.
import { afterAll, beforeAll, expect, it } from "vitest";
import { runScenario } from "../faults/lib/run-scenario.ts";
import { SHORT_SIZE } from "../faults/lib/scenario.ts";
import { startFaultSystem, type FaultSystem } from "../faults/lib/system-fixture.ts";
import { scenarios } from "../faults/scenarios/index.ts";

let system: FaultSystem;
beforeAll(async () => (system = await startFaultSystem(() => {})), 180_000);
afterAll(async () => await system?.stop());

for (const scenario of scenarios.filter(({ isSlow }) => isSlow !== true)) {
  const { group: row, name, expected, missingRequirement: needs } = scenario;
  it.skipIf(needs !== undefined)(
    `${row}, ${name}: ${needs === undefined ? expected : `needs ${needs}`}`,
    { timeout: 180_000 },
    async () => {
      expect((await runScenario(scenario, system, SHORT_SIZE)).problems).toEqual([]);
    },
  );
}
