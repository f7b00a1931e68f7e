// Step runner: runs a deployment's steps in order and, if one fails, rolls back the earlier changes in reverse order.

import { asEdgeTierError, reasonOf } from "../../core/errors.ts";
import { cliErrors } from "../errors.ts";

/** `already`: the step found nothing to do. `would`: a dry run skipped the step. */
export type StepStatus = "done" | "already" | "would" | "failed" | "taken back" | "not taken back";

export interface StepReport {
  readonly step: string;
  readonly status: StepStatus;
  /** Details, one per line. */
  readonly found: readonly string[];
  readonly seconds: number;
}

export interface StepResult<Value> {
  readonly status: "done" | "already" | "would";
  readonly details: string | readonly string[];
  readonly value: Value;
}

/** The way to roll back one change. A step registers it before the change, because it may fail half-way. */
export interface Compensation {
  readonly description: string;
  /** Instruction for people if `undo` fails. */
  readonly manualRemedy: string;
  /** Rolls the change back. Returns false if the change had not taken effect. */
  undo(): Promise<boolean>;
}

export interface StepRunner {
  /** Runs one step. @throws deployment_undone if it failed and changes of earlier steps were rolled back */
  runStep<Value>(
    step: string,
    action: (changes: (undo: Compensation) => void) => Promise<StepResult<Value>>,
  ): Promise<Value>;
  reports(): readonly StepReport[];
}

interface StepRunnerOptions {
  /** Called when a step starts, for progress output. */
  readonly onStart: (step: string) => void;
  readonly onReport: (report: StepReport) => void;
  /** Aborts before the next step. */
  readonly signal: AbortSignal;
}

type Report = (
  step: string,
  status: StepStatus,
  details: string | readonly string[],
  startedAtMs: number,
) => void;

export function createStepRunner({ onStart, onReport, signal }: StepRunnerOptions): StepRunner {
  const reports: StepReport[] = [];
  const compensations: Compensation[] = [];
  const report: Report = (step, status, details, startedAtMs) => {
    const stepReport = {
      step,
      status,
      found: [details].flat(),
      seconds: Math.round(performance.now() - startedAtMs) / 1000,
    };
    reports.push(stepReport);
    onReport(stepReport);
  };
  return {
    reports: () => reports,
    async runStep(step, action) {
      const startedAtMs = performance.now();
      onStart(step);
      try {
        signal.throwIfAborted();
        const { status, details, value } = await action((undo) => compensations.push(undo));
        report(step, status, details, startedAtMs);
        return value;
      } catch (thrown) {
        const problems = (thrown instanceof AggregateError ? thrown.errors : [thrown]).map(
          (error: unknown) => asEdgeTierError(error),
        );
        report(
          step,
          "failed",
          problems.map((error) =>
            error.code === "internal" ? reasonOf(error.cause) : error.detail,
          ),
          startedAtMs,
        );
        if (compensations.length === 0) throw thrown;
        const { undone, failed } = await rollBack(compensations, report);
        throw cliErrors.wentBack(step, problems[0] ?? asEdgeTierError(thrown), undone, failed);
      }
    },
  };
}

/** Rolls all changes back, the last one first, and continues after a failure. */
async function rollBack(
  compensations: readonly Compensation[],
  report: Report,
): Promise<{ readonly undone: string[]; readonly failed: string[] }> {
  const undone: string[] = [];
  const failed: string[] = [];
  for (const compensation of compensations.toReversed()) {
    const { description, manualRemedy } = compensation;
    const startedAtMs = performance.now();
    try {
      if (!(await compensation.undo())) continue;
      undone.push(description);
      report("way back", "taken back", description, startedAtMs);
    } catch (error) {
      const { code, detail } = asEdgeTierError(error);
      const reason = code === "internal" ? reasonOf(error) : detail;
      const failure = `${description} (${reason}); do it manually: ${manualRemedy}`;
      failed.push(failure);
      report("way back", "not taken back", failure, startedAtMs);
    }
  }
  return { undone, failed };
}
