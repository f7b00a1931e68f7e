// What the command line prints: tables for people, JSON for programs, errors with their remedy on stderr.

import { asEdgeTierError, reasonOf } from "../core/errors.ts";
import { toProblemDetails } from "../protocol/problem-details.ts";

/** The option that every command has. */
export const jsonArg = {
  json: {
    type: "boolean",
    description: "Print JSON on stdout and nothing else; errors are problem details on stderr",
  },
} as const;

export function printJson(value: unknown): void {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}

export function printLine(line = ""): void {
  process.stdout.write(`${line}\n`);
}

/** Lines for people to follow, on stderr; none beside JSON, whose stderr is for errors. */
export const createProgressPrinter =
  (json: boolean) =>
  (line: string): void => {
    if (!json) process.stderr.write(`${line}\n`);
  };

/** Columns as wide as their widest cell, two spaces apart. */
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

/** One line (or JSON line) for each error; several come as an AggregateError. */
export function printError(error: unknown, json: boolean): void {
  for (const one of error instanceof AggregateError ? error.errors : [error])
    process.stderr.write(`${json ? renderErrorJson(one) : renderErrorText(one)}\n`);
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

/** Bytes as people read them. */
export function formatBytes(bytes: number): string {
  return bytes < 1024 * 1024
    ? `${(bytes / 1024).toFixed(1)} KiB`
    : `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}

/** @param ratio of what is compared with to what there is: 2 is half as much */
export function formatReduction(ratio: number): string {
  return ratio >= 1 ? `${ratio.toFixed(2)} times less` : `${(1 / ratio).toFixed(2)} times more`;
}
