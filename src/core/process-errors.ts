// Errors of starting processes and servers, which only Node raises.

import { errorFactory, type ErrorTable } from "./errors.ts";

/** Status and remedy of each code that this module owns. */
export const processErrorTable = {
  port_in_use: {
    status: 500,
    remedy: "Stop the process that listens there, or set another port with {variable}=<port>.",
  },
  component_failed: { status: 500, remedy: "See the output above for the cause." },
} as const satisfies ErrorTable;

const makeError = errorFactory(processErrorTable);

export const processErrors = {
  portInUse: (component: string, port: number, variable: string) =>
    makeError("port_in_use", `Port ${port} for the ${component} is in use.`, {
      values: { variable },
    }),
  componentFailed: (component: string, reason: string, cause?: unknown) =>
    makeError("component_failed", `The ${component} did not start: ${reason}.`, { cause }),
} as const;
