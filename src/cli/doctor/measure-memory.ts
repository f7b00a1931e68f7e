// Memory of a Worker under load: what its isolate holds of what the platform limits, and its process's resident set.
//
// How the measuring changes what it measures, with the model `intent`:
// - To look at WebAssembly memory collects the isolate's garbage. Every isolate is therefore looked at once, at its end:
//   one that had been looked at after its cold start held 3 MiB less heap hundreds of requests later.
// - For the inspector V8 keeps what the Worker logs: at most 0.3 MiB of heap in the end. What else the inspector adds to
//   the heap cannot be read without it; the process was 1 to 2 MiB larger with it, of 157.
// Known gap: what is held only while a request is served, such as a model's file while its session is opened, may be gone
// when the isolate is looked at.
//
// The process is shown without a limit, since it takes much that does not count: copies of the modules, compiled code,
// workerd's own pages that only this Worker touches. It read two to four times as much as the isolate's figure.

import { cliErrors } from "../errors.ts";
import { readFile } from "node:fs/promises";
import type { IsolateMemory } from "../../toolchain/doctor-measurements.ts";
import { reasonOf } from "../../core/errors.ts";
import { type WorkerdEdge, type InspectedEdge, startInspectedEdge } from "../local/workerd-edge.ts";
import type { WorkerUpload } from "../local/upload.ts";
import { measureIsolateMemory } from "./isolate-memory.ts";
import type { SampleRequest } from "./sample-requests.ts";

const CONCURRENT = 4;
const TIMEOUT_MS = 60_000;

export interface MemoryWorkload {
  /** One for each model, one after the other. */
  readonly coldRequests: readonly SampleRequest[];
  /** Some at a time. */
  readonly steadyRequests: readonly SampleRequest[];
}

/** Gets every answer; throws for one that shows that the load is not served. */
export type OnResponse = (status: number, body: string) => void;

/** Of a Worker that has served nothing yet. @throws not_measured */
export async function measureCold(
  edge: InspectedEdge,
  { coldRequests: first }: MemoryWorkload,
  onAnswer: OnResponse,
  signal: AbortSignal,
): Promise<IsolateMemory> {
  await sendWorkload(edge, { coldRequests: first, steadyRequests: [] }, onAnswer, signal);
  return await readIsolateMemory(edge, signal);
}

/** Of a Worker of its own. @returns with the process's peak; undefined where the platform has no /proc @throws not_measured */
export async function measureSteady(
  edge: InspectedEdge,
  load: MemoryWorkload,
  onAnswer: OnResponse,
  signal: AbortSignal,
): Promise<{ readonly isolate: IsolateMemory; readonly peakResidentBytes: number | undefined }> {
  await sendWorkload(edge, load, onAnswer, signal);
  const peakResidentBytes = await readPeakRssBytes(edge.pid);
  return { isolate: await readIsolateMemory(edge, signal), peakResidentBytes };
}

/** @returns without what an empty Worker's process takes at most, under the same settings and load */
export async function measureAboveEmptyWorker(
  peakResidentBytes: number | undefined,
  upload: WorkerUpload,
  load: MemoryWorkload,
  signal: AbortSignal,
): Promise<number | undefined> {
  if (peakResidentBytes === undefined) return undefined;
  const script =
    "export default { fetch: async (request) => new Response(`${(await request.text()).length}`) };";
  const edge = await startInspectedEdge(
    {
      ...upload,
      modules: [{ name: "main.js", kind: "script", bytes: new TextEncoder().encode(script) }],
    },
    {},
  );
  try {
    await sendWorkload(edge, load, () => {}, signal);
    const emptyBytes = await readPeakRssBytes(edge.pid);
    return emptyBytes === undefined ? undefined : peakResidentBytes - emptyBytes;
  } finally {
    await edge.stop();
  }
}

async function sendWorkload(
  { url }: WorkerdEdge,
  { coldRequests: first, steadyRequests: more }: MemoryWorkload,
  onAnswer: OnResponse,
  signal: AbortSignal,
): Promise<void> {
  const ask = async ({ path, mediaType, body }: SampleRequest) => {
    const headers = { "content-type": mediaType, "x-deadline-ms": `${TIMEOUT_MS}` };
    const response = await fetch(`${url}${path}`, {
      method: "POST",
      headers,
      body,
      signal: within(signal),
    });
    onAnswer(response.status, await response.text());
  };
  for (const request of first) await ask(request);
  for (let index = 0; index < more.length; index += CONCURRENT)
    await Promise.all(more.slice(index, index + CONCURRENT).map(ask));
}

async function readIsolateMemory(
  { inspectorUrl }: InspectedEdge,
  signal: AbortSignal,
): Promise<IsolateMemory> {
  try {
    return await measureIsolateMemory(inspectorUrl, within(signal));
  } catch (error) {
    throw cliErrors.notMeasured("The isolate's memory", reasonOf(error), error);
  }
}

const within = (signal: AbortSignal) => AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]);

/** proc(5) */
async function readPeakRssBytes(pid: number): Promise<number | undefined> {
  let status: string;
  try {
    status = await readFile(`/proc/${pid}/status`, "utf8");
  } catch {
    return undefined; // macOS, Windows
  }
  const bytes = 1024 * Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1]);
  return Number.isFinite(bytes) ? bytes : undefined;
}
