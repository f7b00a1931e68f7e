// Target of the region benchmark: a region or a peer in its own process.
import { setTimeout as sleep } from "node:timers/promises";
import { startListeningChild } from "../../../src/cli/local/listening-child.ts";
import { REGION_ENTRY } from "../../../src/cli/local/paths.ts";
import { reasonOf } from "../../../src/core/errors.ts";
import { type S3Options, toS3Variables } from "../../../src/registry/s3-config.ts";
import { createSender, type Send } from "../lib/checked-load.ts";

const READY_TIMEOUT_MS = 120_000;
/** Maximum connections of the client. Further calls wait for a free one. */
const CONNECTIONS = 256;

/** Number of a region's log lines that are shown if it does not start. */
const MAX_LOG_LINES = 20;

export interface Target {
  /** Process id; its children's CPU time counts as its own. */
  readonly pid: number;
  readonly send: Send;
  stop(): Promise<void>;
}

/** A process that will serve the Open Inference Protocol at `url`. */
export interface ServerProcess {
  readonly url: string;
  readonly pid: number;
  readonly died: Promise<string>;
  stop(): Promise<void>;
}

/** Waits until the server and its model are ready. @throws if the server exits or the timeout expires */
export async function connectTarget(
  name: string,
  model: string,
  server: ServerProcess,
): Promise<Target> {
  const paths = ["/v2/health/ready", `/v2/models/${model}/ready`];
  const timeoutAtMs = performance.now() + READY_TIMEOUT_MS;
  while (!(await areReady(server.url, paths))) {
    const died = await Promise.race([server.died, sleep(100)]);
    if (died === undefined && performance.now() < timeoutAtMs) continue;
    await server.stop();
    throw new Error(
      `${name} did not become ready: ${died ?? `not within ${READY_TIMEOUT_MS / 1000} s`}`,
    );
  }
  const send = createSender(server.url, CONNECTIONS);
  return {
    pid: server.pid,
    send,
    async stop() {
      send.close();
      await server.stop();
    },
  };
}

async function areReady(url: string, paths: readonly string[]): Promise<boolean> {
  try {
    const answers = await Promise.all(
      paths.map((path) => fetch(`${url}${path}`, { signal: AbortSignal.timeout(5_000) })),
    );
    await Promise.all(answers.map((answer) => answer.body?.cancel()));
    return answers.every((answer) => answer.ok);
  } catch {
    return false;
  }
}

/** Queues are long here, so that late requests are measured and not rejected. */
/** Peers compute every request: so do we. */
const VARIABLES = {
  EDGETIER_REGION_SHARED_RUNS: "off",
  EDGETIER_REGION_PORT: "0",
  EDGETIER_REGION_HOST: "127.0.0.1",
  EDGETIER_REGION_THREADS: "1",
  EDGETIER_REGION_MAX_PENDING: "100000",
  EDGETIER_REGION_MAX_QUEUE_SIZE: "100000",
};

/** A region with one model, and one thread an operator. */
export async function startRegion(
  store: S3Options,
  model: string,
  variables: Readonly<Record<string, string>>,
): Promise<Target> {
  const environment = {
    ...toS3Variables(store),
    ...VARIABLES,
    EDGETIER_REGION_PRELOAD: model,
    ...variables,
  };
  const lines: string[] = [];
  const onLine = (line: string) => {
    if (line.includes("request_failed")) console.error(line);
    if (lines.push(line) > MAX_LOG_LINES) lines.shift();
  };
  try {
    return await connectTarget(
      "region",
      model,
      await startListeningChild({ name: "region", file: REGION_ENTRY, environment, onLine }),
    );
  } catch (error) {
    throw new Error(`${reasonOf(error)}\n${lines.join("\n")}`, { cause: error });
  }
}
