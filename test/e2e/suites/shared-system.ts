// The system that all suites of test/e2e/fixture-system.test.ts share, because each start takes many seconds.

import { afterAll, beforeAll } from "vitest";
import { type FixtureSystem, startFixtureSystem } from "../../support/fixture-system.ts";

let started: FixtureSystem | undefined;
beforeAll(async () => {
  started = await startFixtureSystem({ edgeVariables: { EDGETIER_CORS_ORIGINS: "*" } });
});
afterAll(() => started?.stop());

function requireSystem(): FixtureSystem {
  if (started === undefined) throw new Error("The shared system runs in hooks and tests only.");
  return started;
}

export const system: Pick<FixtureSystem, "urls" | "proxy"> = {
  get urls() {
    return requireSystem().urls;
  },
  get proxy() {
    return requireSystem().proxy;
  },
};
