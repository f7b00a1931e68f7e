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
  readonly found: string | readonly string[];
  readonly value: Value;
}

/** How a change is taken back; told before the change is begun, since a step may fail half-way. */
export interface Undo {
  readonly what: string;
  /** For people, where `run` fails. */
  readonly byHand: string;
  /** @returns false where the change had not come to be */
  run(): Promise<boolean>;
}

export interface Steps {
  /** @throws deployment_undone, after what the steps before have changed was taken back */
  run<Value>(
    step: string,
    action: (changes: (undo: Undo) => void) => Promise<StepResult<Value>>,
  ): Promise<Value>;
  reports(): readonly StepReport[];
}

interface StepsOptions {
  /** For people to follow. */
  readonly onStart: (step: string) => void;
  readonly onReport: (report: StepReport) => void;
  /** Ends it before the next step. */
  readonly signal: AbortSignal;
}

export function createSteps({ onStart, onReport, signal }: StepsOptions): Steps {
  const reports: StepReport[] = [];
  const undos: Undo[] = [];
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
        if (!(await undo.run())) continue;
        undone.push(undo.what);
        report("way back", "taken back", undo.what, startedAtMs);
      } catch (error) {
        left.push(
          `${undo.what} (${asEdgeTierError(error).code === "internal" ? reasonOf(error) : asEdgeTierError(error).detail}); by hand: ${undo.byHand}`,
        );
        report("way back", "not taken back", left.at(-1) ?? "", startedAtMs);
      }
    }
    return { undone, left };
  };
  return {
    reports: () => reports,
    async run(step, action) {
      const startedAtMs = performance.now();
      onStart(step);
      try {
        signal.throwIfAborted();
        const { status, found, value } = await action((undo) => undos.push(undo));
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
