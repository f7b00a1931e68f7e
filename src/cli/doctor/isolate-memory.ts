// Isolate memory: reads an isolate's share of the platform's limit (128 MB of JavaScript heap and WebAssembly memory) from
// V8's inspector. `Runtime.getHeapUsage` covers the heap and the contents of ArrayBuffers, but not WebAssembly memory:
// a Worker with 20 MiB of it reads the same (measured). The size of every `WebAssembly.Memory` is therefore added.
//
// The heap figure is V8's committed memory, not only live objects. The platform counts it so, in workerd's patch to V8 "Add
// methods to get heap and external memory sizes directly". Compiled WebAssembly code is in none of these figures.
//
// Buffers are counted after a garbage collection. Uncollected image bodies and pixels varied from 21 to 50 MB after the same
// load; V8 collects them only under memory pressure.

import * as z from "zod";
import type { IsolateMemory } from "../../toolchain/doctor-measurements.ts";
import { attachInspector, type Inspector } from "./inspector.ts";

const usageSchema = z.object({
  totalSize: z.number(),
  embedderHeapUsedSize: z.number(),
  backingStorageSize: z.number(),
});
const contextSchema = z.object({ context: z.object({ id: z.int() }) });
const objectSchema = z.object({ result: z.object({ objectId: z.string() }) });
const objectsSchema = z.object({ objects: z.object({ objectId: z.string() }) });
const numberSchema = z.object({ result: z.object({ value: z.number() }) });

/**
 * Measures an isolate's memory. Collects its garbage after reading the heap and before reading the buffers.
 * @param url address of the inspector of a workerd with one Worker
 */
export async function measureIsolateMemory(
  url: string,
  signal: AbortSignal,
): Promise<IsolateMemory> {
  const inspector = await attachInspector(url, signal);
  try {
    const usage = async () => await inspector.call("Runtime.getHeapUsage", {}, usageSchema);
    const { totalSize, embedderHeapUsedSize } = await usage();
    const wasmBytes = await measureWasmMemory(inspector); // also collects the garbage
    const { backingStorageSize } = await usage();
    return {
      heapBytes: totalSize + embedderHeapUsedSize,
      bufferBytes: backingStorageSize,
      wasmBytes,
    };
  } finally {
    inspector.close();
  }
}

/** Sums the bytes of every reachable `WebAssembly.Memory`. `Runtime.queryObjects` collects garbage first. */
async function measureWasmMemory(inspector: Inspector): Promise<number> {
  await inspector.call("Runtime.enable", {}, z.unknown()); // workerd reports its contexts only after this call
  const contexts = z
    .array(contextSchema)
    .min(1)
    .parse(inspector.receivedEvents("Runtime.executionContextCreated"));
  let bytes = 0;
  for (const { context } of contexts) {
    const { result: prototype } = await inspector.call(
      "Runtime.evaluate",
      { contextId: context.id, expression: "WebAssembly.Memory.prototype" },
      objectSchema,
    );
    const { objects } = await inspector.call(
      "Runtime.queryObjects",
      { prototypeObjectId: prototype.objectId },
      objectsSchema,
    );
    const functionDeclaration =
      "function () { return this.reduce((sum, { buffer }) => sum + buffer.byteLength, 0); }";
    const { result } = await inspector.call(
      "Runtime.callFunctionOn",
      { objectId: objects.objectId, functionDeclaration, returnByValue: true },
      numberSchema,
    );
    bytes += result.value;
  }
  return bytes;
}
