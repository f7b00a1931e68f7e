import wasm from "cold:engine.wasm";
// Stock onnxruntime-web: calls `InferenceSession.create` in the first request.
//
// The stock package does not run in workerd, which compiles no WebAssembly from bytes, has no shared memory and
// does not wait on atomics. Therefore the compiled engine is passed in, on a memory that is not
// shared. The measured work is unchanged: instantiation, parsing, optimizing and allocating are the package's own.
import image from "cold:image.bin";
import { env, InferenceSession, Tensor } from "onnxruntime-web/wasm";
import type { NamedTensors } from "../../../../src/core/tensor.ts";

const { instantiate, Memory } = WebAssembly;
Reflect.set(WebAssembly, "Memory", function ({ initial, maximum }: WebAssembly.MemoryDescriptor) {
  return new Memory(maximum === undefined ? { initial } : { initial, maximum });
});
Reflect.set(
  WebAssembly,
  "instantiate",
  async (_bytes: ArrayBuffer, imports: WebAssembly.Imports) => ({
    module: wasm,
    instance: await instantiate(wasm, imports),
  }),
);
Reflect.set(Atomics, "waitAsync", undefined);
env.wasm.numThreads = 1;
env.wasm.wasmBinary = new ArrayBuffer(1); // required, but never read

let session: InferenceSession | undefined;

export async function runLogits(input: NamedTensors): Promise<Float32Array> {
  session ??= await InferenceSession.create(new Uint8Array(image));
  const feeds = Object.entries(input).map(
    ([name, { datatype, data, shape }]) =>
      [
        name,
        datatype === "FP32"
          ? new Tensor("float32", data as Float32Array, shape)
          : new Tensor("int32", data as Int32Array, shape),
      ] as const,
  );
  const { logits } = await session.run(Object.fromEntries(feeds));
  return logits?.data as Float32Array;
}
