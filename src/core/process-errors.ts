// Errors of starting processes and servers, in Node only.

import { errorFactory, type ErrorTable } from "./errors.ts";

/** Status and remedy of each code that this module owns. */
export const processErrorTable = {
  port_in_use: {
    status: 500,
    remedy: "Stop what listens there, or choose another: {variable}=<port>.",
  },
  component_failed: { status: 500, remedy: "See the output above it." },
} as const satisfies ErrorTable;

const makeError = errorFactory(processErrorTable);

export const processErrors = {
  portInUse: (what: string, port: number, variable: string) =>
    makeError("port_in_use", `Port ${port} for the ${what} is in use.`, { values: { variable } }),
  componentFailed: (what: string, reason: string, cause?: unknown) =>
    makeError("component_failed", `The ${what} did not start: ${reason}.`, { cause }),
} as const;
