// Errors of sessions and snapshots in the edge engine.

import { errorFactory, type ErrorTable } from "../core/errors.ts";

export type SnapshotRejectionReason =
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
      "Retry: a new instance replaces it. Ask the operator to check the model with `edgetier model inspect`.",
  },
  function_cut: {
    status: 500,
    remedy:
      "Ask the operator to pass the log to `edgetier engine build --traps` and to deploy again.",
  },
  snapshot_refused: {
    status: 503,
    remedy:
      "Create the snapshot again for the deployed engine; until then, the model loads without it.",
  },
  not_deterministic: {
    status: 400,
    remedy:
      "Serve it from the region or with the full engine, because a snapshot would freeze its random numbers.",
  },
  session_too_large: {
    status: 503,
    remedy:
      "Ask the operator to raise edgetier.sessionBudgetBytes in package.json, or to serve the model from the region.",
  },
} as const satisfies ErrorTable;

const makeError = errorFactory(runtimeErrorTable);

export const runtimeErrors = {
  engineTrap: (action: string, reason: string, cause: unknown) =>
    makeError("engine_trap", `The engine trapped while ${action}: ${reason}.`, { cause }),
  functionCut: (cut: { readonly function: number } | { readonly slot: number }, cause?: unknown) =>
    makeError(
      "function_cut",
      `This input requires ${"slot" in cut ? `the function in slot ${cut.slot}` : `function ${cut.function}`}, which was cut from the engine.`,
      { cause, facts: { ...cut } },
    ),
  snapshotRefused: (reason: SnapshotRejectionReason) =>
    makeError("snapshot_refused", `The snapshot was rejected: ${reason}.`, { facts: { reason } }),
  notDeterministic: () =>
    makeError("not_deterministic", "The model gives two different outputs for the same input."),
  sessionTooLarge: (bytes: number, budgetBytes: number) =>
    makeError(
      "session_too_large",
      `The session requires ${bytes} bytes; this isolate's budget for all sessions is ${budgetBytes} bytes.`,
    ),
} as const;
