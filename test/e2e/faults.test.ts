// The table of faults in its short form, without what takes long: `npm run test:faults` prints what each scenario reached, and has all.
import { afterAll, beforeAll, expect, it } from "vitest";
import { runScenario } from "../faults/lib/run-scenarios.ts";
import { SHORT } from "../faults/lib/scenario.ts";
import { startWorld, type World } from "../faults/lib/world.ts";
import { scenarios } from "../faults/scenarios/all.ts";

let world: World;
beforeAll(async () => (world = await startWorld(() => {})), 180_000);
afterAll(async () => await world?.stop());

for (const scenario of scenarios.filter(({ isSlow }) => isSlow !== true)) {
  const { row, name, expected, needs } = scenario;
  it.skipIf(needs !== undefined)(
    `${row}, ${name}: ${needs === undefined ? expected : `needs ${needs}`}`,
    { timeout: 180_000 },
    async () => {
      expect((await runScenario(scenario, world, SHORT)).problems).toEqual([]);
    },
  );
}
