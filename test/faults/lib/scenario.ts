// What a scenario is: one row of the table of faults made to happen to the running system, and what came of it.
import type { FaultSystem } from "./system-fixture.ts";

/** Figures carry their units in their names. */
export type Figures = Readonly<Record<string, number>>;

export interface ScenarioResult {
  readonly figures: Figures;
  /** What was not as expected; none where the scenario passed. */
  readonly problems: readonly string[];
}

/** How much of what can be repeated. */
export interface ScenarioSize {
  readonly mutatedRequests: number;
  readonly mutatedModels: number;
  /** At least so many requests, and at least so long. */
  readonly soakRequests: number;
  readonly soakMs: number;
  /** Of what is measured as a distribution. */
  readonly samples: number;
}

export const SHORT_SIZE: ScenarioSize = {
  mutatedRequests: 1_500,
  mutatedModels: 60,
  soakRequests: 1_500,
  soakMs: 0,
  samples: 24,
};
export const LONG_SIZE: ScenarioSize = {
  mutatedRequests: 100_000,
  mutatedModels: 10_000,
  soakRequests: 10_000,
  soakMs: 1_800_000,
  samples: 700,
};

export interface Scenario {
  /** Of the table; several scenarios may share one. */
  readonly group: string;
  readonly name: string;
  readonly expected: string;
  /** What is not there yet, or not on this machine: the scenario is left out, with this as the reason. */
  readonly missingRequirement?: string | undefined;
  /** It waits for many faults to pass, one after the other: `npm run test:faults` has it, and not every run of all tests. */
  readonly isSlow?: boolean;
  run(world: FaultSystem, size: ScenarioSize): Promise<ScenarioResult>;
}

const MAX_SHOWN_PROBLEMS = 8;

export interface ProblemCollector {
  readonly problems: readonly string[];
  /** Notes the problem unless all is well. @returns `isWell` */
  check(isWell: boolean, problem: () => string): boolean;
}

/** Collects problems; of many, the first ones and their number. */
export function createProblemCollector(): ProblemCollector {
  const found: string[] = [];
  let more = 0;
  return {
    get problems() {
      return more === 0 ? found : [...found, `and ${more} more`];
    },
    check(isWell, problem) {
      if (!isWell && found.length < MAX_SHOWN_PROBLEMS) found.push(problem());
      else if (!isWell) more++;
      return isWell;
    },
  };
}
