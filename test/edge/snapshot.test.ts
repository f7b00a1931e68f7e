// Snapshots of a real session, the model `intent`'s edge tier, inside workerd.
import { beforeAll, describe, expect, it } from "vitest";
import features from "../../models/intent/artifacts/edge-features.json" with { type: "json" };
import intent from "../../models/intent/artifacts/edge.onnx";
import { sha256Hex } from "../../src/core/hash.ts";
import type { NamedTensors } from "../../src/core/tensor.ts";
import type { Session } from "../../src/runtime/runtime.ts";
import { restoreSession, takeSnapshot } from "../../src/runtime/wasm/snapshot.ts";
import { decodeSnapshot, encodeSnapshot, PAGE_BYTES, type Snapshot } from "../../src/runtime/wasm/snapshot-format.ts";
import { createHashedNgrams } from "../../src/tasks/text/hashed-ngrams.ts";
import { makeQueries } from "../bench/lib/queries.ts";
import { engineModule, wasmRuntime } from "./engine.ts";

const binding = { engine: "e".repeat(64), model: "m".repeat(64) };
const model = new Uint8Array(intent);
const { buckets, wordNgrams, charNgrams, maxFeatures } = features;
const idsOf = createHashedNgrams({ kind: "hashed-ngrams", buckets, wordNgrams, charNgrams, maxFeatures });
const inputOf = (text: string): NamedTensors => {
  const data = idsOf(text);
  return { ids: { datatype: "INT32", shape: [1, data.length], data } };
};
const queries = makeQueries(1000, 7);

let snapshot: Snapshot;
let fresh: Session;
beforeAll(async () => {
  snapshot = await takeSnapshot(engineModule, model, queries.slice(0, 5).map(inputOf), binding);
  fresh = await wasmRuntime.createSession(model);
});

describe("a restored session", () => {
  it("gives the same bytes as a fresh one, for 1,000 inputs", async () => {
    const restored = await restoreSession(engineModule, snapshot);
    for (const query of queries) {
      expect(await restored.run(inputOf(query))).toEqual(await fresh.run(inputOf(query)));
    }
  });

  it("declares what the model declares", async () => {
    const restored = await restoreSession(engineModule, snapshot);
    expect(restored.inputs).toEqual(fresh.inputs);
    expect(restored.outputs).toEqual(fresh.outputs);
  });

  it("does not grow over 10,000 runs", async () => {
    const restored = await restoreSession(engineModule, snapshot);
    const inputs = queries.slice(0, 100).map(inputOf);
    const before = restored.memoryBytes;
    for (let run = 0; run < 10_000; run++) await restored.run(inputs[run % 100] ?? {});
    expect(restored.memoryBytes).toBe(before);
  });

  it("shares nothing with another from the same snapshot", async () => {
    const [one, other] = await Promise.all([restoreSession(engineModule, snapshot), restoreSession(engineModule, snapshot)]);
    await one.dispose();
    await expect(one.run(inputOf("a"))).rejects.toMatchObject({ code: "session_failed" });
    expect(await other.run(inputOf("what is my balance"))).toEqual(await fresh.run(inputOf("what is my balance")));
  });
});

describe("the image", () => {
  it("leaves out zero pages and the model's bytes", () => {
    expect(snapshot.pages.length).toBeLessThan(snapshot.pageCount / 2);
    const marker = model.subarray(0, 64); // the start of the file: nothing that ONNX Runtime keeps
    expect(snapshot.pages.some((page) => indexOf(page.bytes, marker) >= 0)).toBe(false);
  });

  it("is the same each time it is taken", async () => {
    const again = await takeSnapshot(engineModule, model, queries.slice(0, 5).map(inputOf), binding);
    expect(await sha256Hex(encodeSnapshot(again))).toBe(await sha256Hex(encodeSnapshot(snapshot)));
  });
});

describe("the file form", () => {
  it("comes back as it was", async () => {
    const bytes = encodeSnapshot(snapshot);
    const decoded = decodeSnapshot(bytes, binding);
    expect({ ...decoded, pages: [] }).toEqual({ ...snapshot, pages: [] });
    expect(await sha256Hex(encodeSnapshot(decoded))).toBe(await sha256Hex(bytes));
  });

  it("is refused by name when it is not what it should be", () => {
    const bytes = encodeSnapshot(snapshot);
    const changed = (at: number, value: number) => bytes.slice().fill(value, at, at + 1);
    const refused: [what: Uint8Array, expected: typeof binding, reason: string][] = [
      [new Uint8Array(), binding, "truncated"],
      [bytes.subarray(0, 11), binding, "truncated"],
      [bytes.subarray(0, bytes.byteLength - 1), binding, "truncated"],
      [bytes.subarray(0, bytes.byteLength - PAGE_BYTES), binding, "truncated"],
      [changed(0, 0), binding, "no_snapshot"],
      [changed(6, 9), binding, "other_format"],
      [changed(12, 0x21), binding, "bad_header"],
      [bytes, { ...binding, engine: "f".repeat(64) }, "other_engine"],
      [bytes, { ...binding, model: "f".repeat(64) }, "other_model"],
    ];
    for (const [what, expected, reason] of refused) {
      expect(() => decodeSnapshot(what, expected)).toThrow(`The snapshot was refused: ${reason}.`);
    }
  });
});

function indexOf(bytes: Uint8Array, wanted: Uint8Array): number {
  for (let at = bytes.indexOf(wanted[0] ?? 0); at >= 0; at = bytes.indexOf(wanted[0] ?? 0, at + 1)) {
    if (wanted.every((byte, index) => bytes[at + index] === byte)) return at;
  }
  return -1;
}
