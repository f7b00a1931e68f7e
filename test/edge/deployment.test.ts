// Deployment of the two reference models in workerd: compares sessions restored into the engine of `edgetier engine build` with
// sessions of the full engine.
import { beforeAll, describe, expect, it } from "vitest";
import deployment from "../../dist/test/edge/deployment.mjs";
import intent from "../../models/intent/artifacts/edge.onnx";
import type { NamedTensors } from "../../src/core/tensor.ts";
import type { Session } from "../../src/runtime/runtime.ts";
import { createBytesSource } from "../../src/runtime/wasm/byte-source.ts";
import type { Deployment } from "../../src/runtime/wasm/deployment.ts";
import { decodeFunctionSet } from "../../src/runtime/wasm/function-set.ts";
import { restoreBundledSnapshots } from "../../src/runtime/wasm/restore-bundled-snapshots.ts";
import { restoreSnapshot } from "../../src/runtime/wasm/restore-snapshot.ts";
import { encodeSnapshot } from "../../src/runtime/wasm/snapshot-format.ts";
import { takeSnapshot } from "../../src/runtime/wasm/take-snapshot.ts";
import { createWasmRuntime } from "../../src/runtime/wasm/wasm-runtime.ts";
import int8MatMul from "../fixtures/int8-matmul.onnx";
import {
  randomImageInput,
  encodeIntentInput,
  intentSampleTexts,
  makeSmallMobileNet,
} from "../support/reference-models.ts";
import { fullEngineModule, wasmRuntime } from "./full-engine.ts";

const RUNS = 1_000;
const FURTHER_RUNS = 10_000;

const models: Record<string, { bytes: () => Uint8Array; input: (index: number) => NamedTensors }> =
  {
    intent: {
      bytes: () => new Uint8Array(intent),
      input: (index) =>
        encodeIntentInput(intentSampleTexts[index % intentSampleTexts.length] ?? ""),
    },
    mobilenet: { bytes: makeSmallMobileNet, input: randomImageInput },
  };

it("has a stripped engine and both snapshots", () => {
  expect(deployment).toMatchObject({
    engine: { kind: "cut", source: fullEngineModule.source },
    fallback: undefined,
    bundled: [{}, {}],
  });
});

describe.each(Object.entries(models))("%s, restored", (name, { bytes, input }) => {
  let restored: Session;
  let fresh: Session;
  beforeAll(async () => {
    const { sessions } = await restoreBundledSnapshots(deployment);
    fresh = await wasmRuntime.createSession(bytes());
    restored = [...sessions.values()].find(
      (session) => session.inputs[0]?.name === fresh.inputs[0]?.name,
    ) as Session;
  });

  it(
    `returns the same bytes as the full engine for ${RUNS} inputs`,
    { timeout: 120_000 },
    async () => {
      expect(restored.outputs).toEqual(fresh.outputs);
      for (let index = 0; index < RUNS; index++) {
        const inputs = input(index);
        expect(await restored.run(inputs), `input ${index}`).toEqual(await fresh.run(inputs));
      }
    },
  );

  it(`does not grow over ${FURTHER_RUNS} further runs`, { timeout: 120_000 }, async () => {
    const inputs = Array.from({ length: 50 }, (_, index) => input(index));
    const before = restored.memoryBytes;
    for (let run = 0; run < FURTHER_RUNS; run++)
      await restored.run(inputs[run % inputs.length] as NamedTensors);
    expect(restored.memoryBytes).toBe(before);
  });

  it("fails like the full engine, and continues to work", async () => {
    if (name !== "intent") return;
    const outOfRange = {
      ids: { datatype: "INT32" as const, shape: [1, 1], data: Int32Array.of(1 << 30) },
    };
    const expected = await fresh.run(outOfRange).catch((error: Error) => error.message);
    expect(expected).toMatch(/out of data bounds/);
    expect(await restored.run(outOfRange).catch((error: Error) => error.message)).toBe(expected);
    expect(await restored.run(input(1))).toEqual(await fresh.run(input(1)));
  });
});

describe("a failure at module scope", () => {
  const bundle = deployment.bundled[0] as Deployment["bundled"][number];
  it("is reported, without effect on other sessions", async () => {
    const damaged = new Uint8Array(bundle.bytes).slice();
    damaged[damaged.byteLength - 1] = (damaged[damaged.byteLength - 1] ?? 0) ^ 1;
    const { sessions, failures } = await restoreBundledSnapshots({
      ...deployment,
      bundled: [{ ...bundle, bytes: damaged.buffer }, ...deployment.bundled.slice(1)],
    });
    expect(failures).toMatchObject([{ code: "snapshot_refused", facts: { reason: "corrupt" } }]);
    expect(sessions.size).toBe(1);
  });

  it("is reported for a snapshot of another engine", async () => {
    const engine = { ...deployment.engine, source: "f".repeat(64) };
    const { sessions, failures } = await restoreBundledSnapshots({
      ...deployment,
      engine,
    });
    expect(failures).toMatchObject([
      { facts: { reason: "other_engine" } },
      { facts: { reason: "other_engine" } },
    ]);
    expect(sessions.size).toBe(0);
  });
});

describe("a stripped function", () => {
  it("is reported by number when a stripped engine opens a model", async () => {
    const opening = createWasmRuntime(deployment.engine).createSession(new Uint8Array(int8MatMul));
    const error: { code: string; facts: { function: number } } = await opening.then(
      () => expect.unreachable(),
      (thrown) => thrown,
    );
    expect(error).toMatchObject({ code: "function_cut", facts: { function: expect.any(Number) } });
    expect(
      deployment.engine.kind === "cut" &&
        decodeFunctionSet(deployment.engine.functions).has(error.facts.function),
    ).toBe(false);
  });

  it("ends the run of another model, and its session", async () => {
    const input = {
      x: { datatype: "UINT8" as const, shape: [1, 3], data: Uint8Array.of(1, 2, 3) },
    };
    const sha256 = "a".repeat(64);
    const { bytes, head } = await encodeSnapshot(
      await takeSnapshot(fullEngineModule, new Uint8Array(int8MatMul), sha256, [input]),
    );
    const session = await restoreSnapshot(
      deployment.engine,
      createBytesSource(bytes),
      head,
      sha256,
    );
    await expect(session.run(input)).rejects.toMatchObject({ code: "function_cut" });
    await expect(session.run(input)).rejects.toMatchObject({ code: "session_failed" });
    // The same snapshot works in the full engine.
    const onFull = await restoreSnapshot(fullEngineModule, createBytesSource(bytes), head, sha256);
    expect((await onFull.run(input))["y"]?.data).toEqual(Int32Array.of(2, 44));
  });
});
