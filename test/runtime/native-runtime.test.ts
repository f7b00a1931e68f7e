// Tests the native runtimes: the runtime contract, and their datatypes and threads.
import { readFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import type { NamedTensors } from "../../src/core/tensor.ts";
import { createIsolatedRuntime, ISOLATIONS } from "../../src/runtime/native/isolated-runtime.ts";
import { runtimeContract } from "../contract/runtime.ts";

const readFixture = async (name: string) =>
  new Uint8Array(await readFile(new URL(`../fixtures/${name}`, import.meta.url)));

for (const isolation of ISOLATIONS) {
  runtimeContract(
    `onnxruntime-node, isolation: ${isolation}`,
    async () => createIsolatedRuntime(isolation, { session: { intraOpThreads: 1 } }),
    readFixture,
  );
}

describe.each(ISOLATIONS)("datatypes, isolation %s", (isolation) => {
  const open = async (model: string) =>
    await createIsolatedRuntime(isolation).createSession(await readFixture(model));

  it("all pass through unchanged, except BF16", async () => {
    const shape = [2];
    const tensors: NamedTensors = {
      bool: { datatype: "BOOL", shape, data: Uint8Array.of(1, 0) },
      uint8: { datatype: "UINT8", shape, data: Uint8Array.of(0, 255) },
      uint16: { datatype: "UINT16", shape, data: Uint16Array.of(0, 65535) },
      uint32: { datatype: "UINT32", shape, data: Uint32Array.of(0, 4294967295) },
      uint64: { datatype: "UINT64", shape, data: BigUint64Array.of(0n, 2n ** 64n - 1n) },
      int8: { datatype: "INT8", shape, data: Int8Array.of(-128, 127) },
      int16: { datatype: "INT16", shape, data: Int16Array.of(-32768, 32767) },
      int32: { datatype: "INT32", shape, data: Int32Array.of(-(2 ** 31), 2 ** 31 - 1) },
      int64: { datatype: "INT64", shape, data: BigInt64Array.of(-(2n ** 63n), 1n) },
      fp16: { datatype: "FP16", shape, data: Uint16Array.of(0x3c00, 0xfc00) },
      fp32: { datatype: "FP32", shape, data: Float32Array.of(-0, NaN) },
      fp64: { datatype: "FP64", shape, data: Float64Array.of(Math.PI, Infinity) },
    };
    const session = await open("identity-all.onnx");
    const outputs = await session.run(
      Object.fromEntries(Object.entries(tensors).map(([kind, tensor]) => [`${kind}_in`, tensor])),
    );
    expect(outputs).toStrictEqual(
      Object.fromEntries(Object.entries(tensors).map(([kind, tensor]) => [`${kind}_out`, tensor])),
    );
  });

  it("BYTES pass as text, and are rejected if the binding would change them", async () => {
    const session = await open("string-identity.onnx");
    const x = (...elements: Uint8Array[]): NamedTensors => ({
      x: { datatype: "BYTES", shape: [elements.length], data: elements },
    });
    const bytes = (text: string) => new TextEncoder().encode(text);
    expect(await session.run(x(bytes("\u{feff}né😀"), bytes("")))).toEqual({
      y: x(bytes("\u{feff}né😀"), bytes(""))["x"],
    });
    await expect(session.run(x(bytes("a\0b")))).rejects.toMatchObject({ code: "invalid_tensor" });
    await expect(session.run(x(Uint8Array.of(0xff)))).rejects.toMatchObject({
      code: "invalid_utf8",
    });
  });
});

it.each(["thread", "process"] as const)(
  "a run in a %s does not block the caller's thread",
  async (isolation) => {
    const session = await createIsolatedRuntime(isolation, {
      session: { intraOpThreads: 1 },
    }).createSession(await readFixture("slow-bag-of-tokens.onnx"));
    const tokens = { datatype: "INT64", shape: [1, 1], data: BigInt64Array.of(4n) } as const;
    const state = { finished: false };
    const run = session
      .run({ input_ids: tokens, attention_mask: tokens })
      .finally(() => (state.finished = true));
    let eventLoopTurns = 0;
    while (!state.finished) {
      await new Promise((resolve) => setImmediate(resolve));
      eventLoopTurns++;
    }
    await run;
    expect(eventLoopTurns).toBeGreaterThan(50);
    await session.dispose();
  },
);
