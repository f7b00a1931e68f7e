// Output of commands: tables for people, JSON for programs, errors with their remedy on stderr.

import { asEdgeTierError, reasonOf } from "../core/errors.ts";
import { toProblemDetails } from "../protocol/problem-details.ts";

/** The option of every command. */
export const jsonArg = {
  json: {
    type: "boolean",
    description: "Print only JSON on stdout, and errors as problem details on stderr",
  },
} as const;

export function printJson(value: unknown): void {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}

export function printLine(line = ""): void {
  process.stdout.write(`${line}\n`);
}

/** Creates a printer of progress lines for people, on stderr. With --json it prints nothing, because stderr is for errors. */
export const createProgressPrinter =
  (json: boolean) =>
  (line: string): void => {
    if (!json) process.stderr.write(`${line}\n`);
  };

const printedWarnings = new Set<string>();

/** Prints a warning on stderr, once per process, because several steps of a command may read the same configuration. */
export function printWarning(line: string): void {
  if (printedWarnings.has(line)) return;
  printedWarnings.add(line);
  printUsageWarning(line, false);
}

/** Prints a warning about the command line on stderr; with --json as a JSON line, because programs parse stderr. */
export function printUsageWarning(warning: string, json: boolean): void {
  process.stderr.write(`${json ? JSON.stringify({ warning }) : `warning: ${warning}`}\n`);
}

/** Renders rows as text, with each column as wide as its widest cell. */
export function renderTable(rows: readonly (readonly (string | number)[])[]): string {
  const widths: number[] = [];
  for (const row of rows)
    row.forEach(
      (cell, column) => (widths[column] = Math.max(widths[column] ?? 0, String(cell).length)),
    );
  return rows
    .map((row) =>
      row
        .map((cell, column) => String(cell).padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

/** Prints one line (or JSON line) per error; an AggregateError contains several. */
export function printError(error: unknown, json: boolean): void {
  for (const single of error instanceof AggregateError ? error.errors : [error])
    process.stderr.write(`${json ? renderErrorJson(single) : renderErrorText(single)}\n`);
}

function renderErrorJson(error: unknown): string {
  return JSON.stringify(toProblemDetails(asEdgeTierError(error), ""));
}

function renderErrorText(thrown: unknown): string {
  const error = asEdgeTierError(thrown);
  const cause = error.code === "internal" ? ` (${reasonOf(error.cause)})` : "";
  return `error: ${error.detail.trimEnd()}${cause}\n  ${error.code === "internal" ? stackOf(error.cause) : error.remedy}`;
}

const stackOf = (cause: unknown): string => (cause instanceof Error ? (cause.stack ?? "") : "");

export function formatBytes(bytes: number): string {
  return bytes < 1024 * 1024
    ? `${(bytes / 1024).toFixed(1)} KiB`
    : `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}

/**
 * Formats a saving.
 * @param ratio reference divided by the compared value: 2 means half as much
 */
export function formatReduction(ratio: number): string {
  return ratio >= 1 ? `${ratio.toFixed(2)} times less` : `${(1 / ratio).toFixed(2)} times more`;
}
