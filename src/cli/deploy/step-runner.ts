// A deployment's steps, one after another, and the way back: what was done is taken back in reverse when a later step fails.

import { cliErrors } from "../errors.ts";
import { asEdgeTierError, reasonOf } from "../../core/errors.ts";

/** `already`: there was nothing to do. `would`: a dry run leaves it out. */
export type StepStatus = "done" | "already" | "would" | "failed" | "taken back" | "not taken back";

export interface StepReport {
  readonly step: string;
  readonly status: StepStatus;
  /** A line each. */
  readonly found: readonly string[];
  readonly seconds: number;
}

export interface StepResult<Value> {
  readonly status: "done" | "already" | "would";
  readonly details: string | readonly string[];
  readonly value: Value;
}

/** How a change is taken back; told before the change is begun, since a step may fail half-way. */
export interface Compensation {
  readonly description: string;
  /** For people, where `run` fails. */
  readonly manualRemedy: string;
  /** @returns false where the change had not come to be */
  undo(): Promise<boolean>;
}

export interface StepRunner {
  /** @throws deployment_undone, after what the steps before have changed was taken back */
  runStep<Value>(
    step: string,
    action: (changes: (undo: Compensation) => void) => Promise<StepResult<Value>>,
  ): Promise<Value>;
  reports(): readonly StepReport[];
}

interface StepRunnerOptions {
  /** For people to follow. */
  readonly onStart: (step: string) => void;
  readonly onReport: (report: StepReport) => void;
  /** Ends it before the next step. */
  readonly signal: AbortSignal;
}

export function createStepRunner({ onStart, onReport, signal }: StepRunnerOptions): StepRunner {
  const reports: StepReport[] = [];
  const undos: Compensation[] = [];
  const report = (
    step: string,
    status: StepStatus,
    found: string | readonly string[],
    startedAtMs: number,
  ): void => {
    const one = {
      step,
      status,
      found: [found].flat(),
      seconds: Math.round(performance.now() - startedAtMs) / 1000,
    };
    reports.push(one);
    onReport(one);
  };
  const takeBack = async (): Promise<{ readonly undone: string[]; readonly left: string[] }> => {
    const undone: string[] = [];
    const left: string[] = [];
    for (const undo of undos.toReversed()) {
      const startedAtMs = performance.now();
      try {
        if (!(await undo.undo())) continue;
        undone.push(undo.description);
        report("way back", "taken back", undo.description, startedAtMs);
      } catch (error) {
        left.push(
          `${undo.description} (${asEdgeTierError(error).code === "internal" ? reasonOf(error) : asEdgeTierError(error).detail}); by hand: ${undo.manualRemedy}`,
        );
        report("way back", "not taken back", left.at(-1) ?? "", startedAtMs);
      }
    }
    return { undone, left };
  };
  return {
    reports: () => reports,
    async runStep(step, action) {
      const startedAtMs = performance.now();
      onStart(step);
      try {
        signal.throwIfAborted();
        const { status, details: found, value } = await action((undo) => undos.push(undo));
        report(step, status, found, startedAtMs);
        return value;
      } catch (thrown) {
        const problems = (thrown instanceof AggregateError ? thrown.errors : [thrown]).map(
          (one: unknown) => asEdgeTierError(one),
        );
        report(
          step,
          "failed",
          problems.map((one) => (one.code === "internal" ? reasonOf(one.cause) : one.detail)),
          startedAtMs,
        );
        if (undos.length === 0) throw thrown;
        const { undone, left } = await takeBack();
        throw cliErrors.wentBack(step, problems[0] ?? asEdgeTierError(thrown), undone, left);
      }
    },
  };
}
