// Runs scenarios serially over one running system.
import { reasonOf } from "../../../src/core/errors.ts";
import type { Figures, Scenario, ScenarioSize } from "./scenario.ts";
import type { FaultSystem } from "./system-fixture.ts";

export interface ScenarioOutcome {
  readonly scenario: Scenario;
  readonly state: "passed" | "failed" | "left out";
  readonly seconds: number;
  readonly figures: Figures;
  /** Deviations from the expectation, or the reason for leaving the scenario out. */
  readonly problems: readonly string[];
}

export async function runScenario(
  scenario: Scenario,
  system: FaultSystem,
  size: ScenarioSize,
): Promise<ScenarioOutcome> {
  if (scenario.missingRequirement !== undefined)
    return {
      scenario,
      state: "left out",
      seconds: 0,
      figures: {},
      problems: [scenario.missingRequirement],
    };
  const startedAtMs = performance.now();
  const since = () => Math.round((performance.now() - startedAtMs) / 100) / 10;
  try {
    const { figures, problems } = await scenario.run(system, size);
    return {
      scenario,
      state: problems.length === 0 ? "passed" : "failed",
      seconds: since(),
      figures,
      problems,
    };
  } catch (error) {
    return {
      scenario,
      state: "failed",
      seconds: since(),
      figures: {},
      problems: [`it broke off: ${reasonOf(error)}`],
    };
  } finally {
    system.clearFaults();
  }
}
