// Snapshots in workerd: takes, encodes, restores and rejects snapshots of the edge tier of the model `intent`.
import { beforeAll, describe, expect, it } from "vitest";
import intent from "../../models/intent/artifacts/edge.onnx";
import { sha256Hex } from "../../src/core/hash.ts";
import { createBytesSource, createStreamSource } from "../../src/runtime/wasm/byte-source.ts";
import { PAGE_BYTES } from "../../src/runtime/wasm/engine.ts";
import { restoreSnapshot } from "../../src/runtime/wasm/restore-snapshot.ts";
import {
  decodeSnapshot,
  encodeSnapshot,
  type EncodedSnapshot,
  parseSnapshotHead,
  type Snapshot,
} from "../../src/runtime/wasm/snapshot-format.ts";
import { takeSnapshot } from "../../src/runtime/wasm/take-snapshot.ts";
import random from "../fixtures/random-normal.onnx";
import { encodeIntentInput, intentSampleTexts } from "../support/reference-models.ts";
import { fullEngineModule, wasmRuntime } from "./full-engine.ts";

const model = new Uint8Array(intent);
const warmUp = intentSampleTexts.slice(0, 5).map(encodeIntentInput);

let modelSha256: string;
let snapshot: Snapshot;
let encoded: EncodedSnapshot;
beforeAll(async () => {
  modelSha256 = await sha256Hex(model);
  snapshot = await takeSnapshot(fullEngineModule, model, modelSha256, warmUp);
  encoded = await encodeSnapshot(snapshot);
});
const restore = (source: EncodedSnapshot = encoded) =>
  restoreSnapshot(fullEngineModule, createBytesSource(source.bytes), source.head, modelSha256);

describe("a snapshot", () => {
  it("excludes zero pages and the model's bytes", () => {
    expect(snapshot.pages.length).toBeLessThan(snapshot.pageCount * 0.6);
    const marker = model.subarray(0, 64); // the start of the file, which ONNX Runtime does not keep
    expect(snapshot.pages.some((page) => indexOfBytes(page.bytes, marker) >= 0)).toBe(false);
  });

  it("has no more memory than the session needs", () => {
    expect(snapshot.pageCount * PAGE_BYTES).toBeLessThan(12 * 1024 * 1024); // an instance of the npm package starts with 16 MiB
  });

  it("is deterministic", async () => {
    const again = await encodeSnapshot(
      await takeSnapshot(fullEngineModule, model, modelSha256, warmUp),
    );
    expect(await sha256Hex(again.bytes)).toBe(await sha256Hex(encoded.bytes));
  });

  it("cannot be taken of a model with random numbers, which all isolates would share", async () => {
    const inputs = { x: { datatype: "FP32" as const, shape: [4], data: new Float32Array(4) } };
    await expect(
      takeSnapshot(fullEngineModule, new Uint8Array(random), "r".repeat(64), [inputs]),
    ).rejects.toMatchObject({ code: "not_deterministic" });
    // A session that is opened without a snapshot draws new numbers in each run.
    const session = await wasmRuntime.createSession(new Uint8Array(random));
    const firstDraw = (await session.run(inputs))["y"]?.data;
    expect((await session.run(inputs))["y"]?.data).not.toEqual(firstDraw);
  });
});

describe("a restored session", () => {
  it("has the model's inputs and outputs", async () => {
    const [restored, fresh] = [await restore(), await wasmRuntime.createSession(model)];
    expect(restored.inputs).toEqual(fresh.inputs);
    expect(restored.outputs).toEqual(fresh.outputs);
  });

  it("is independent of another one from the same snapshot", async () => {
    const [first, second] = await Promise.all([restore(), restore()]);
    const input = encodeIntentInput("what is my balance");
    const before = await second.run(input);
    await first.dispose();
    await expect(first.run(input)).rejects.toMatchObject({ code: "session_failed" });
    expect(await second.run(input)).toEqual(before);
  });

  it("uses the clock of its own isolate", async () => {
    const lines: string[] = [];
    const originalError = console.error;
    console.error = (line: string) => lines.push(line);
    try {
      const restored = await restore();
      const outOfRange = {
        ids: { datatype: "INT32" as const, shape: [1, 1], data: Int32Array.of(99_999_999) },
      };
      await expect(restored.run(outOfRange)).rejects.toMatchObject({ code: "session_failed" }); // ONNX Runtime logs it with the time
    } finally {
      console.error = originalError;
    }
    expect(lines.join()).toContain(new Date().toISOString().slice(0, 10));
  });
});

const flipBit = (offset: number) =>
  encoded.bytes.map((byte, index) => (index === offset ? byte ^ 1 : byte));

describe("an encoded snapshot", () => {
  it("decodes to the original", async () => {
    const decoded = decodeSnapshot(encoded.bytes, encoded.head.size, snapshot.binding);
    expect({ ...decoded, pages: [] }).toEqual({ ...snapshot, pages: [] });
    expect(await sha256Hex((await encodeSnapshot(decoded)).bytes)).toBe(
      await sha256Hex(encoded.bytes),
    );
  });

  it("restores from a stream of odd chunks, compressed", async () => {
    const packed = await encodeSnapshot(snapshot, deflate);
    expect(packed.bytes.byteLength).toBeLessThan(encoded.bytes.byteLength / 3);
    const restored = await restoreSnapshot(
      fullEngineModule,
      createStreamSource(streamInChunks(packed.bytes, 77_777)),
      packed.head,
      modelSha256,
    );
    const input = encodeIntentInput("what is my balance");
    expect(await restored.run(input)).toEqual(await (await restore()).run(input));
  });

  it.each<[name: string, bytes: () => Uint8Array, reason: string]>([
    ["an empty file", () => new Uint8Array(), "truncated"],
    ["a truncated head", () => encoded.bytes.subarray(0, 100), "truncated"],
    [
      "a missing last byte",
      () => encoded.bytes.subarray(0, encoded.bytes.byteLength - 1),
      "truncated",
    ],
    ["a flipped bit in the magic", () => flipBit(0), "corrupt"],
    ["a flipped bit in the head", () => flipBit(encoded.head.size - 1), "corrupt"],
    ["a flipped bit in the first page", () => flipBit(encoded.head.size), "corrupt"],
    ["a flipped bit in the last byte", () => flipBit(encoded.bytes.byteLength - 1), "corrupt"],
  ])("is rejected with its reason: %s", async (_name, bytes, reason) => {
    await expect(
      restoreSnapshot(fullEngineModule, createBytesSource(bytes()), encoded.head, modelSha256),
    ).rejects.toMatchObject({ code: "snapshot_refused", facts: { reason } });
    await expect(
      restoreSnapshot(
        fullEngineModule,
        createStreamSource(streamInChunks(bytes(), 1_000_000)),
        encoded.head,
        modelSha256,
      ),
    ).rejects.toMatchObject({ code: "snapshot_refused", facts: { reason } });
  });
});

describe("a snapshot of something else", () => {
  it("is rejected with its reason for another engine, model or format", async () => {
    const head = encoded.bytes.subarray(0, encoded.head.size);
    const setByte = (offset: number, value: number) => head.slice().fill(value, offset, offset + 1);
    const otherSha256 = "f".repeat(64);
    const cases: [head: Uint8Array, binding: typeof snapshot.binding, reason: string][] = [
      [head.subarray(0, 11), snapshot.binding, "truncated"],
      [setByte(0, 0), snapshot.binding, "no_snapshot"],
      [setByte(6, 9), snapshot.binding, "other_format"],
      [setByte(12, 0x21), snapshot.binding, "bad_header"],
      [head.subarray(0, head.byteLength - 1), snapshot.binding, "bad_header"],
      [head, { ...snapshot.binding, engine: otherSha256 }, "other_engine"],
      [head, { ...snapshot.binding, model: otherSha256 }, "other_model"],
      [head, { ...snapshot.binding, choices: "threads=2" }, "other_choices"],
    ];
    for (const [bytes, binding, reason] of cases)
      expect(() => parseSnapshotHead(bytes, binding)).toThrow(
        expect.objectContaining({ code: "snapshot_refused", facts: { reason } }),
      );
    await expect(
      restoreSnapshot(
        { ...fullEngineModule, source: otherSha256 },
        createBytesSource(encoded.bytes),
        encoded.head,
        modelSha256,
      ),
    ).rejects.toMatchObject({ facts: { reason: "other_engine" } });
    await expect(
      restoreSnapshot(
        fullEngineModule,
        createBytesSource(encoded.bytes),
        encoded.head,
        otherSha256,
      ),
    ).rejects.toMatchObject({ facts: { reason: "other_model" } });
  });
});

const deflate = async (chunk: Uint8Array) =>
  new Uint8Array(
    await new Response(
      new Blob([chunk as Uint8Array<ArrayBuffer>])
        .stream()
        .pipeThrough(new CompressionStream("deflate-raw")),
    ).arrayBuffer(),
  );

function streamInChunks(bytes: Uint8Array, size: number): ReadableStream<Uint8Array> {
  let offset = 0;
  return new ReadableStream({
    pull(controller) {
      if (offset >= bytes.byteLength) return controller.close();
      controller.enqueue(bytes.slice(offset, offset + size));
      offset += size;
    },
  });
}

function indexOfBytes(bytes: Uint8Array, marker: Uint8Array): number {
  for (
    let offset = bytes.indexOf(marker[0] ?? 0);
    offset >= 0;
    offset = bytes.indexOf(marker[0] ?? 0, offset + 1)
  ) {
    if (marker.every((byte, index) => bytes[offset + index] === byte)) return offset;
  }
  return -1;
}
