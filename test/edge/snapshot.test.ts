// Snapshots of a real session, the model `intent`'s edge tier, inside workerd: taken, written down, restored, refused.
import { beforeAll, describe, expect, it } from "vitest";
import intent from "../../models/intent/artifacts/edge.onnx";
import random from "../fixtures/random-normal.onnx";
import { sha256Hex } from "../../src/core/hash.ts";
import { PAGE_BYTES } from "../../src/runtime/wasm/engine.ts";
import { createBytesSource, createStreamSource } from "../../src/runtime/wasm/byte-source.ts";
import { restoreSnapshot } from "../../src/runtime/wasm/restore-snapshot.ts";
import {
  decodeSnapshot,
  encodeSnapshot,
  type EncodedSnapshot,
  parseSnapshotHead,
  type Snapshot,
} from "../../src/runtime/wasm/snapshot-format.ts";
import { takeSnapshot } from "../../src/runtime/wasm/take-snapshot.ts";
import { fullEngineModule, wasmRuntime } from "./full-engine.ts";
import { encodeIntentInput, intentSampleTexts } from "../support/reference-models.ts";

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
const restore = (from: EncodedSnapshot = encoded) =>
  restoreSnapshot(fullEngineModule, createBytesSource(from.bytes), from.head, modelSha256);

describe("the image", () => {
  it("leaves out zero pages and the model's bytes", () => {
    expect(snapshot.pages.length).toBeLessThan(snapshot.pageCount * 0.6);
    const marker = model.subarray(0, 64); // the start of the file: nothing that ONNX Runtime keeps
    expect(snapshot.pages.some((page) => indexOf(page.bytes, marker) >= 0)).toBe(false);
  });

  it("takes no more memory than the session needs", () => {
    expect(snapshot.pageCount * PAGE_BYTES).toBeLessThan(12 * 1024 * 1024); // the npm package's own instance begins with 16 MiB
  });

  it("is the same each time it is taken", async () => {
    const again = await encodeSnapshot(
      await takeSnapshot(fullEngineModule, model, modelSha256, warmUp),
    );
    expect(await sha256Hex(again.bytes)).toBe(await sha256Hex(encoded.bytes));
  });

  it("is not taken of a model with random numbers: all isolates would draw the same", async () => {
    const inputs = { x: { datatype: "FP32" as const, shape: [4], data: new Float32Array(4) } };
    await expect(
      takeSnapshot(fullEngineModule, new Uint8Array(random), "r".repeat(64), [inputs]),
    ).rejects.toMatchObject({ code: "not_deterministic" });
    // Opened as it is, it draws other numbers in each instance.
    const [one, other] = [
      await wasmRuntime.createSession(new Uint8Array(random)),
      await wasmRuntime.createSession(new Uint8Array(random)),
    ];
    const draws = [await one.run(inputs), await one.run(inputs), await other.run(inputs)].map(
      (output) => String(output["y"]?.data),
    );
    expect(draws[0]).not.toBe(draws[1]);
  });
});

describe("a restored session", () => {
  it("declares what the model declares", async () => {
    const [restored, fresh] = [await restore(), await wasmRuntime.createSession(model)];
    expect(restored.inputs).toEqual(fresh.inputs);
    expect(restored.outputs).toEqual(fresh.outputs);
  });

  it("shares nothing with another from the same snapshot", async () => {
    const [one, other] = await Promise.all([restore(), restore()]);
    const input = encodeIntentInput("what is my balance");
    const before = await other.run(input);
    await one.dispose();
    await expect(one.run(input)).rejects.toMatchObject({ code: "session_failed" });
    expect(await other.run(input)).toEqual(before);
  });

  it("goes on by the clock of its own isolate", async () => {
    const lines: string[] = [];
    const log = console.error;
    console.error = (line: string) => lines.push(line);
    try {
      const restored = await restore();
      const outOfRange = {
        ids: { datatype: "INT32" as const, shape: [1, 1], data: Int32Array.of(99_999_999) },
      };
      await expect(restored.run(outOfRange)).rejects.toMatchObject({ code: "session_failed" }); // ONNX Runtime logs it, with the time
    } finally {
      console.error = log;
    }
    expect(lines.join()).toContain(new Date().toISOString().slice(0, 10));
  });
});

describe("the file form", () => {
  it("comes back as it was", async () => {
    const decoded = decodeSnapshot(encoded.bytes, encoded.head.size, snapshot.binding);
    expect({ ...decoded, pages: [] }).toEqual({ ...snapshot, pages: [] });
    expect(await sha256Hex((await encodeSnapshot(decoded)).bytes)).toBe(
      await sha256Hex(encoded.bytes),
    );
  });

  it("comes back from a stream of odd pieces, compressed", async () => {
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

  const flipped = (at: number) =>
    encoded.bytes.map((byte, index) => (index === at ? byte ^ 1 : byte));
  it.each<[what: string, bytes: () => Uint8Array, reason: string]>([
    ["nothing", () => new Uint8Array(), "truncated"],
    ["a cut off head", () => encoded.bytes.subarray(0, 100), "truncated"],
    ["a cut off end", () => encoded.bytes.subarray(0, encoded.bytes.byteLength - 1), "truncated"],
    ["a flipped bit in the magic", () => flipped(0), "corrupt"],
    ["a flipped bit in the head", () => flipped(encoded.head.size - 1), "corrupt"],
    ["a flipped bit in the first page", () => flipped(encoded.head.size), "corrupt"],
    ["a flipped bit in the last byte", () => flipped(encoded.bytes.byteLength - 1), "corrupt"],
  ])("is refused by name: %s", async (_what, bytes, reason) => {
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

  it("is refused by name where it belongs to something else", async () => {
    const head = encoded.bytes.subarray(0, encoded.head.size);
    const changed = (at: number, value: number) => head.slice().fill(value, at, at + 1);
    const other = "f".repeat(64);
    const refused: [head: Uint8Array, binding: typeof snapshot.binding, reason: string][] = [
      [head.subarray(0, 11), snapshot.binding, "truncated"],
      [changed(0, 0), snapshot.binding, "no_snapshot"],
      [changed(6, 9), snapshot.binding, "other_format"],
      [changed(12, 0x21), snapshot.binding, "bad_header"],
      [head.subarray(0, head.byteLength - 1), snapshot.binding, "bad_header"],
      [head, { ...snapshot.binding, engine: other }, "other_engine"],
      [head, { ...snapshot.binding, model: other }, "other_model"],
      [head, { ...snapshot.binding, choices: "threads=2" }, "other_choices"],
    ];
    for (const [bytes, binding, reason] of refused)
      expect(() => parseSnapshotHead(bytes, binding)).toThrow(
        `The snapshot was refused: ${reason}.`,
      );
    await expect(
      restoreSnapshot(
        { ...fullEngineModule, source: other },
        createBytesSource(encoded.bytes),
        encoded.head,
        modelSha256,
      ),
    ).rejects.toMatchObject({ facts: { reason: "other_engine" } });
    await expect(
      restoreSnapshot(fullEngineModule, createBytesSource(encoded.bytes), encoded.head, other),
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

function indexOf(bytes: Uint8Array, wanted: Uint8Array): number {
  for (
    let at = bytes.indexOf(wanted[0] ?? 0);
    at >= 0;
    at = bytes.indexOf(wanted[0] ?? 0, at + 1)
  ) {
    if (wanted.every((byte, index) => bytes[at + index] === byte)) return at;
  }
  return -1;
}
