// What an isolate holds of what the platform counts (128 MB of JavaScript heap and WebAssembly memory), as V8's inspector
// tells. `Runtime.getHeapUsage` knows the heap and the ArrayBuffers' contents, but no WebAssembly memory (measured: a
// Worker reads the same with 20 MiB of it and without), so each `WebAssembly.Memory` is asked for its size.
//
// The heap is what V8 has committed, not the objects in it alone: workerd's patch to V8 ("Add methods to get heap and
// external memory sizes directly") counts it so. Code that was compiled from WebAssembly is in none of these.
//
// Buffers are counted after the garbage has been collected. What V8 has not collected yet of images' bodies and pixels read from 21 to
// 50 MB after the same load, by nothing but the moment; it collects them when they press.

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

/** Collects the isolate's garbage, after the heap has been measured and before the buffers are. @param url of the inspector of a workerd with one Worker */
export async function measureIsolateMemory(
  url: string,
  signal: AbortSignal,
): Promise<IsolateMemory> {
  const inspector = await attachInspector(url, signal);
  try {
    const usage = async () => await inspector.call("Runtime.getHeapUsage", {}, usageSchema);
    const { totalSize, embedderHeapUsedSize } = await usage();
    const wasmBytes = await measureWasmMemory(inspector); // collects the garbage
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

/** Of every `WebAssembly.Memory` that is reachable, whoever made it. */
async function measureWasmMemory(inspector: Inspector): Promise<number> {
  await inspector.call("Runtime.enable", {}, z.unknown()); // workerd names its contexts by this alone
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
