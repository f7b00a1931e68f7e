// The region's log: one JSON object a line on standard output, by the schema of log-record.ts.

import { levelOf } from "../../src/telemetry/log-record.ts";
import { withoutSecrets } from "../../src/telemetry/redacted-log.ts";

export type Log = (event: object) => void;

/** @param settings whose secrets are taken out of every record @param write takes a line */
export function createLog(
  settings: object,
  write: (line: string) => void = (line) => void process.stdout.write(line),
): Log {
  const print = withoutSecrets((record) => write(`${JSON.stringify(record)}\n`), settings);
  return (event) => {
    const record = Object.fromEntries(
      Object.entries(event).map(([name, value]: [string, unknown]) => [
        name,
        value instanceof Error ? textOf(value) : value,
      ]),
    );
    print({ time: new Date().toISOString(), level: levelOf(String(record["event"])), ...record });
  };
}

/** An error's message, and its cause's. */
const textOf = (error: Error): string =>
  [error.message, error.cause]
    .filter((part) => part !== undefined)
    .map(String)
    .join(" Cause: ");
