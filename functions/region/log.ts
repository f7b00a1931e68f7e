// Log of the region: one JSON object per line on standard output, in the schema of log-record.ts.

import { logLevelOf } from "../../src/telemetry/log-record.ts";
import { redactSecrets } from "../../src/telemetry/redacted-log.ts";

export type Log = (event: object) => void;

/** @param settings whose secrets are redacted from every record @param write receives each line */
export function createLog(
  settings: object,
  write: (line: string) => void = (line) => void process.stdout.write(line),
): Log {
  const print = redactSecrets((record) => write(`${JSON.stringify(record)}\n`), settings);
  return (event) => {
    const record = Object.fromEntries(
      Object.entries(event).map(([name, value]: [string, unknown]) => [
        name,
        value instanceof Error ? formatError(value) : value,
      ]),
    );
    print({
      time: new Date().toISOString(),
      level: logLevelOf(String(record["event"])),
      ...record,
    });
  };
}

/** Formats an error's message and that of its cause. */
const formatError = (error: Error): string =>
  [error.message, error.cause]
    .filter((part) => part !== undefined)
    .map(String)
    .join(" Cause: ");
