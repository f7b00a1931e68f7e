// Scenario: one row of the table of faults, applied to the running system, with its result.
import type { FaultSystem } from "./system-fixture.ts";

/** Figures carry their units in their names. */
export type Figures = Readonly<Record<string, number>>;

export interface ScenarioResult {
  readonly figures: Figures;
  /** Deviations from the expectation; none if the scenario passed. */
  readonly problems: readonly string[];
}

/** Counts and durations of the repeated parts. */
export interface ScenarioSize {
  readonly mutatedRequests: number;
  readonly mutatedModels: number;
  /** Minimum number of requests and minimum duration. */
  readonly soakRequests: number;
  readonly soakMs: number;
  /** Number of samples of each measured distribution. */
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
  /** Row of the table; several scenarios may share one. */
  readonly group: string;
  readonly name: string;
  readonly expected: string;
  /** Requirement that this machine lacks: the reason for leaving the scenario out. */
  readonly missingRequirement?: string | undefined;
  /** Whether only `npm run test:faults` runs the scenario, because it waits for many faults serially. */
  readonly isSlow?: boolean;
  run(system: FaultSystem, size: ScenarioSize): Promise<ScenarioResult>;
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
