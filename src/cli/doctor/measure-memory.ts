// Worker memory under load: measures the isolate's limited memory and the process's resident set.
//
// Effects of the measurement on its result, with the model `intent`:
// - Reading WebAssembly memory collects the isolate's garbage. Every isolate is therefore read only once, at its end.
//   An isolate that was also read after its cold start had 3 MiB less heap hundreds of requests later.
// - With the inspector, V8 keeps the Worker's logs: at most 0.3 MiB of heap in the end. Its other effects on the heap cannot
//   be read without it; the process was 1 to 2 MiB larger with it, of 157.
// Known gap: memory that is held only during a request may already be free when the isolate is read. An example is a model's
// file while its session opens.
//
// The process has no limit, because it includes memory that the platform does not count. Examples are copies of the modules,
// compiled code, and workerd's own pages that only this Worker touches. Its figure was two to four times the isolate's.

import { readFile } from "node:fs/promises";
import { reasonOf } from "../../core/errors.ts";
import type { IsolateMemory } from "../../toolchain/doctor-measurements.ts";
import { cliErrors } from "../errors.ts";
import type { WorkerUpload } from "../local/upload.ts";
import { type WorkerdEdge, type InspectedEdge, startInspectedEdge } from "../local/workerd-edge.ts";
import { measureIsolateMemory } from "./isolate-memory.ts";
import type { SampleRequest } from "./sample-requests.ts";

const CONCURRENT = 4;
const TIMEOUT_MS = 60_000;

export interface MemoryWorkload {
  /** One request per model, sent one after another. */
  readonly coldRequests: readonly SampleRequest[];
  /** Requests sent several at a time. */
  readonly steadyRequests: readonly SampleRequest[];
}

/** Receives every response. Throws if a response shows that the load is not served. */
export type OnResponse = (status: number, body: string) => void;

/** Measures the isolate after the first request to every model. @throws not_measured */
export async function measureCold(
  edge: InspectedEdge,
  { coldRequests }: MemoryWorkload,
  onResponse: OnResponse,
  signal: AbortSignal,
): Promise<IsolateMemory> {
  await sendWorkload(edge, { coldRequests, steadyRequests: [] }, onResponse, signal);
  return await readIsolateMemory(edge, signal);
}

/**
 * Measures a new isolate after the whole load, and the peak of its process.
 * `peakResidentBytes` is undefined on platforms without /proc.
 * @throws not_measured
 */
export async function measureSteady(
  edge: InspectedEdge,
  load: MemoryWorkload,
  onResponse: OnResponse,
  signal: AbortSignal,
): Promise<{ readonly isolate: IsolateMemory; readonly peakResidentBytes: number | undefined }> {
  await sendWorkload(edge, load, onResponse, signal);
  const peakResidentBytes = await readPeakRssBytes(edge.pid);
  return { isolate: await readIsolateMemory(edge, signal), peakResidentBytes };
}

/** Subtracts the peak of an empty Worker's process under the same settings and load. */
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
  { coldRequests, steadyRequests }: MemoryWorkload,
  onResponse: OnResponse,
  signal: AbortSignal,
): Promise<void> {
  const sendRequest = async ({ path, mediaType, body }: SampleRequest) => {
    const headers = { "content-type": mediaType, "x-deadline-ms": `${TIMEOUT_MS}` };
    const response = await fetch(`${url}${path}`, {
      method: "POST",
      headers,
      body,
      signal: within(signal),
    });
    onResponse(response.status, await response.text());
  };
  for (const request of coldRequests) await sendRequest(request);
  for (let index = 0; index < steadyRequests.length; index += CONCURRENT)
    await Promise.all(steadyRequests.slice(index, index + CONCURRENT).map(sendRequest));
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

/** Reads the peak resident set size, VmHWM of proc(5). */
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
