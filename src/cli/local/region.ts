// Local region: starts the region server as a child process and waits until it is ready.

import { setTimeout as sleep } from "node:timers/promises";
import { processErrors } from "../../core/process-errors.ts";
import { type S3Options, toS3Variables } from "../../registry/s3-config.ts";
import { bufferLines } from "./child.ts";
import { LOOPBACK } from "./defaults.ts";
import { startListeningChild } from "./listening-child.ts";
import type { LocalService } from "./local-service.ts";

const READY_TIMEOUT_MS = 60_000;

export interface RegionOptions {
  readonly file: string;
  readonly port: number;
  readonly store: S3Options;
  /** References of models that are loaded before the region is ready. */
  readonly preload: readonly string[];
  readonly variables: Readonly<Record<string, string>>;
  readonly onLine: (line: string) => void;
}

export interface LocalRegion extends LocalService {
  readonly pid: number;
}

/** Starts the region and prints its output only if the start fails. @throws component_failed */
export async function startLocalRegion({
  file,
  port,
  store,
  preload,
  variables,
  onLine,
}: RegionOptions): Promise<LocalRegion> {
  const output = bufferLines(onLine);
  const child = await startListeningChild({
    name: "region",
    file,
    environment: {
      EDGETIER_REGION_HOST: LOOPBACK,
      EDGETIER_REGION_PORT: `${port}`,
      EDGETIER_REGION_PRELOAD: preload.join(","),
      ...toS3Variables(store),
      ...variables,
    },
    onLine: output.onLine,
  }).catch((error: unknown) => {
    output.flush();
    throw error;
  });
  const deadline = Date.now() + READY_TIMEOUT_MS;
  while (!(await isReady(child.url))) {
    const died = await Promise.race([child.died, sleep(50)]);
    if (died === undefined && Date.now() < deadline) continue;
    output.flush();
    await child.stop();
    throw processErrors.componentFailed(
      "region",
      died ?? `not ready within ${READY_TIMEOUT_MS / 1000} s`,
    );
  }
  output.discard();
  return { ...child, name: "region" };
}

async function isReady(url: string): Promise<boolean> {
  try {
    const response = await fetch(`${url}/v2/health/ready`, { signal: AbortSignal.timeout(5_000) });
    await response.body?.cancel();
    return response.ok;
  } catch {
    return false;
  }
}
