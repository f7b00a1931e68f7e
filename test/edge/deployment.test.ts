// The engine that `edgetier engine build` cuts for the two reference models, inside workerd: restored sessions against
// sessions that the full engine has opened itself.
import { beforeAll, describe, expect, it } from "vitest";
import deployment from "../../dist/test/edge/deployment.mjs";
import intent from "../../models/intent/artifacts/edge.onnx";
import int8MatMul from "../fixtures/int8-matmul.onnx";
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

it("is a cut engine with both snapshots", () => {
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
    `gives the bytes that the full engine gives, for ${RUNS} inputs`,
    { timeout: 120_000 },
    async () => {
      expect(restored.outputs).toEqual(fresh.outputs);
      for (let index = 0; index < RUNS; index++) {
        const inputs = input(index);
        expect(await restored.run(inputs), `input ${index}`).toEqual(await fresh.run(inputs));
      }
    },
  );

  it(`has not grown after ${FURTHER_RUNS} further runs`, { timeout: 120_000 }, async () => {
    const inputs = Array.from({ length: 50 }, (_, index) => input(index));
    const before = restored.memoryBytes;
    for (let run = 0; run < FURTHER_RUNS; run++)
      await restored.run(inputs[run % inputs.length] as NamedTensors);
    expect(restored.memoryBytes).toBe(before);
  });

  it("tells failures as the full engine does, and goes on", async () => {
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

describe("what goes wrong at module scope", () => {
  const one = deployment.bundled[0] as Deployment["bundled"][number];
  it("is told, and keeps no other session from being restored", async () => {
    const damaged = new Uint8Array(one.bytes).slice();
    damaged[damaged.byteLength - 1] = (damaged[damaged.byteLength - 1] ?? 0) ^ 1;
    const { sessions, failures: refused } = await restoreBundledSnapshots({
      ...deployment,
      bundled: [{ ...one, bytes: damaged.buffer }, ...deployment.bundled.slice(1)],
    });
    expect(refused).toMatchObject([{ code: "snapshot_refused", facts: { reason: "corrupt" } }]);
    expect(sessions.size).toBe(1);
  });

  it("is another engine's snapshot", async () => {
    const engine = { ...deployment.engine, source: "f".repeat(64) };
    const { sessions, failures: refused } = await restoreBundledSnapshots({
      ...deployment,
      engine,
    });
    expect(refused.map(({ facts }) => facts["reason"])).toEqual(["other_engine", "other_engine"]);
    expect(sessions.size).toBe(0);
  });
});

describe("a function that was cut", () => {
  it("is told by its number when a model is opened, which a cut engine cannot", async () => {
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

  it("ends the run of a model that the engine was not cut for, and that session for good", async () => {
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
    // On the full engine the same snapshot works.
    const onFull = await restoreSnapshot(fullEngineModule, createBytesSource(bytes), head, sha256);
    expect((await onFull.run(input))["y"]?.data).toEqual(Int32Array.of(2, 44));
  });
});
