// Errors of sessions in the edge engine.

import { errorFactory, type ErrorTable } from "../core/errors.ts";

export type SnapshotRefusal =
  | "truncated"
  | "corrupt"
  | "no_snapshot"
  | "other_format"
  | "bad_header"
  | "other_engine"
  | "other_model"
  | "other_choices";

/** Status and remedy of each code that this module owns. */
export const runtimeErrorTable = {
  engine_trap: {
    status: 500,
    remedy:
      "Another instance takes its place; the operator should check the model with `edgetier model inspect`.",
  },
  function_cut: {
    status: 500,
    remedy: "The operator should pass the log to `edgetier engine build --traps` and deploy again.",
  },
  snapshot_refused: {
    status: 503,
    remedy: "The model is loaded without it; make it again for the engine that is deployed.",
  },
  not_deterministic: {
    status: 400,
    remedy:
      "A snapshot would freeze its random numbers: serve it from the region, or with the full engine.",
  },
  session_too_large: {
    status: 503,
    remedy:
      "The operator should raise edgetier.sessionBudgetBytes in package.json, or serve the model from the region.",
  },
} as const satisfies ErrorTable;

const makeError = errorFactory(runtimeErrorTable);

export const runtimeErrors = {
  engineTrap: (action: string, reason: string, cause: unknown) =>
    makeError("engine_trap", `The engine broke off while ${action}: ${reason}.`, { cause }),
  functionCut: (cut: { readonly function: number } | { readonly slot: number }, cause?: unknown) =>
    makeError(
      "function_cut",
      `The engine was cut of ${"slot" in cut ? `the function in slot ${cut.slot}` : `function ${cut.function}`}, which this input needs.`,
      { cause, facts: { ...cut } },
    ),
  snapshotRefused: (reason: SnapshotRefusal) =>
    makeError("snapshot_refused", `The snapshot was refused: ${reason}.`, { facts: { reason } }),
  notDeterministic: () =>
    makeError("not_deterministic", "The model answers the same input in two ways."),
  sessionTooLarge: (bytes: number, budgetBytes: number) =>
    makeError(
      "session_too_large",
      `The session takes ${bytes} bytes; this isolate has ${budgetBytes} for all.`,
    ),
} as const;
