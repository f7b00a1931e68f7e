// Port check: verifies that all ports of the local system are free before any service starts.

import { once } from "node:events";
import { createServer } from "node:net";
import { coreErrors } from "../../core/common-errors.ts";
import { type EdgeTierError } from "../../core/errors.ts";
import { processErrors } from "../../core/process-errors.ts";
import { LOOPBACK, type PortVariable } from "./defaults.ts";

export type LocalPorts = Readonly<Record<PortVariable, number>>;

const PORT_USERS: Readonly<Record<PortVariable, string>> = {
  EDGETIER_PORT: "edge",
  EDGETIER_REGION_PORT: "region",
  EDGETIER_S3_PORT: "model store (S3)",
  EDGETIER_REDIS_REST_PORT: "Redis REST interface",
};

/**
 * Checks the ports. 0 needs no check, because it selects any free port.
 * @throws port_in_use, or an AggregateError with one for each busy port; invalid_configuration if two are equal
 */
export async function assertPortsFree(ports: Partial<LocalPorts>): Promise<void> {
  const fixed = (Object.entries(ports) as [PortVariable, number][]).filter(
    ([, port]) => port !== 0,
  );
  const repeated = fixed.filter(
    ([, port], index) => fixed.findIndex(([, other]) => other === port) !== index,
  );
  if (repeated.length > 0)
    throw coreErrors.invalidConfiguration(
      repeated.map(
        ([variable, port]) => `${variable}: ${port} is also the port of another service`,
      ),
    );

  const busy: EdgeTierError[] = [];
  for (const [variable, port] of fixed)
    if (!(await isFree(port)))
      busy.push(processErrors.portInUse(PORT_USERS[variable], port, variable));
  if (busy.length === 1) throw busy[0];
  if (busy.length > 1)
    throw new AggregateError(busy, busy.map(({ message }) => message).join("\n"));
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  try {
    server.listen(port, LOOPBACK);
    await once(server, "listening");
    return true;
  } catch {
    return false;
  } finally {
    server.close();
  }
}

/** Finds a port that is currently free. */
export async function findFreePort(): Promise<number> {
  const server = createServer();
  server.listen(0, LOOPBACK);
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  return typeof address === "object" && address !== null ? address.port : 0;
}
