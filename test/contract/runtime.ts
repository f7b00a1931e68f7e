// Contract of Runtime. A callback provides the model bytes, so that the suite also runs without a file system.
/* oxlint-disable max-lines-per-function -- a contract is one suite, whose cases share the fixture of a driver */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { NamedTensors, Tensor } from "../../src/core/tensor.ts";
import type { Runtime, Session } from "../../src/runtime/runtime.ts";

/** @param loadFixture returns the bytes of test/fixtures/<name> */
export function runtimeContract(
  name: string,
  makeRuntime: () => Promise<Runtime>,
  loadFixture: (name: string) => Promise<Uint8Array>,
): void {
  describe(`Runtime ${name}`, () => {
    const sessions: Session[] = [];
    const open = async (fixture: string): Promise<Session> => {
      const session = await (await makeRuntime()).createSession(await loadFixture(fixture));
      sessions.push(session);
      return session;
    };
    afterEach(async () => {
      await Promise.all(sessions.splice(0).map((session) => session.dispose()));
    });

    describe("with int8-matmul.onnx: y = x . [[1, -2], [3, 4], [-5, 6]] + [10, 20]", () => {
      let session: Session;
      beforeEach(async () => {
        session = await open("int8-matmul.onnx");
      });
      const x = (...rows: number[][]): Tensor => ({
        datatype: "UINT8",
        shape: [rows.length, 3],
        data: Uint8Array.from(rows.flat()),
      });

      it("declares its inputs and outputs", () => {
        expect(session.inputs).toEqual([{ name: "x", datatype: "UINT8", shape: [-1, 3] }]);
        expect(session.outputs).toEqual([{ name: "y", datatype: "INT32", shape: [-1, 2] }]);
        expect(session.memoryBytes).toBeGreaterThanOrEqual(0);
      });

      it("computes known outputs of one row and of several rows", async () => {
        expect(await session.run({ x: x([1, 2, 3]) })).toEqual({
          y: { datatype: "INT32", shape: [1, 2], data: Int32Array.of(2, 44) },
        });
        expect(await session.run({ x: x([0, 0, 0], [255, 0, 255]) })).toEqual({
          y: { datatype: "INT32", shape: [2, 2], data: Int32Array.of(10, 20, -1010, 1040) },
        });
      });

      it("keeps overlapping runs apart, and their outputs valid", async () => {
        const runs = Array.from({ length: 50 }, (_, index) => session.run({ x: x([index, 0, 0]) }));
        const outputs = await Promise.all(runs);
        await session.run({ x: x([9, 9, 9]) });
        outputs.forEach((output, index) =>
          expect(output["y"]?.data).toEqual(Int32Array.of(index + 10, 20 - 2 * index)),
        );
      });

      const invalidInputs: [description: string, inputs: NamedTensors, detail: RegExp][] = [
        ["a missing input", {}, /"x": .*missing/],
        ["an unknown input", { x: x([1, 2, 3]), z: x([1, 2, 3]) }, /"z"/],
        [
          "an input with an inherited property name",
          Object.fromEntries([["__proto__", x([1, 2, 3])]]),
          /"__proto__"/,
        ],
        [
          "another datatype",
          { x: { datatype: "INT8", shape: [1, 3], data: new Int8Array(3) } },
          /INT8.*UINT8/,
        ],
        [
          "another dimension",
          { x: { datatype: "UINT8", shape: [1, 4], data: new Uint8Array(4) } },
          /\[1, 4\].*\[-1, 3\]/,
        ],
        [
          "another rank",
          { x: { datatype: "UINT8", shape: [3], data: new Uint8Array(3) } },
          /\[3\]/,
        ],
        [
          "a negative dimension",
          { x: { datatype: "UINT8", shape: [-1, 3], data: new Uint8Array(3) } },
          /dimension -1/,
        ],
        [
          "an overflowing shape",
          { x: { datatype: "UINT8", shape: [2 ** 52, 3], data: new Uint8Array(3) } },
          /too many elements/,
        ],
        [
          "too little data",
          { x: { datatype: "UINT8", shape: [2, 3], data: new Uint8Array(3) } },
          /\b3 elements.*\b6\b/,
        ],
      ];
      it.each(invalidInputs)("rejects %s, and continues", async (_description, inputs, detail) => {
        await expect(session.run(inputs)).rejects.toMatchObject({
          code: "invalid_tensor",
          status: 400,
          detail: expect.stringMatching(detail),
        });
        expect((await session.run({ x: x([1, 2, 3]) }))["y"]?.data).toEqual(Int32Array.of(2, 44));
      });

      it("completes runs from before its disposal, and rejects later ones", async () => {
        const accepted = [session.run({ x: x([1, 2, 3]) }), session.run({ x: x([0, 0, 0]) })];
        const disposed = session.dispose();
        await expect(session.run({ x: x([1, 2, 3]) })).rejects.toMatchObject({
          code: "session_failed",
        });
        await disposed;
        expect((await Promise.all(accepted)).map((output) => output["y"]?.data)).toEqual([
          Int32Array.of(2, 44),
          Int32Array.of(10, 20),
        ]);
        await session.dispose(); // has no effect
      });
    });

    it("preserves 64-bit integers exactly, and does not keep a view of the input", async () => {
      const session = await open("int64-identity.onnx");
      const data = BigInt64Array.of(2n ** 63n - 1n, -(2n ** 63n), 9007199254740993n);
      const output = await session.run({ x: { datatype: "INT64", shape: [3], data } });
      data.fill(0n);
      expect(output["y"]).toEqual({
        datatype: "INT64",
        shape: [3],
        data: BigInt64Array.of(2n ** 63n - 1n, -(2n ** 63n), 9007199254740993n),
      });
    });

    it("accepts an empty tensor", async () => {
      const session = await open("int64-identity.onnx");
      expect(
        await session.run({ x: { datatype: "INT64", shape: [0], data: new BigInt64Array() } }),
      ).toEqual({
        y: { datatype: "INT64", shape: [0], data: new BigInt64Array() },
      });
    });

    it("runs a graph with several inputs", async () => {
      const session = await open("bag-of-tokens.onnx");
      const shape = [2, 3];
      const output = await session.run({
        attention_mask: {
          datatype: "INT64",
          shape,
          data: BigInt64Array.of(1n, 1n, 1n, 1n, 1n, 0n),
        },
        input_ids: { datatype: "INT64", shape, data: BigInt64Array.of(4n, 5n, 6n, 7n, 7n, 6n) },
      });
      expect(output).toEqual({
        logits: { datatype: "FP32", shape: [2, 2], data: Float32Array.of(3, 0, 1, 0.5) },
      });
    });

    it("reports a failed run, and continues", async () => {
      const session = await open("fails-when-run.onnx");
      const x = (count: number): NamedTensors => ({
        x: { datatype: "FP32", shape: [count], data: new Float32Array(count) },
      });
      await expect(session.run(x(5))).rejects.toMatchObject({
        code: "session_failed",
        status: 500,
      });
      expect((await session.run(x(14)))["y"]?.shape).toEqual([7, 2]);
    });

    it.each([
      ["zero bytes", () => new Uint8Array()],
      ["garbage", () => Uint8Array.from({ length: 1000 }, (_, index) => (index * 37) % 256)],
    ])("rejects a model of %s, and continues", async (_description, bytes) => {
      const runtime = await makeRuntime();
      await expect(runtime.createSession(bytes())).rejects.toMatchObject({
        code: "session_failed",
      });
      const session = await runtime.createSession(await loadFixture("int8-matmul.onnx"));
      sessions.push(session);
      expect(session.inputs).toHaveLength(1);
    });

    it("rejects a truncated model", async () => {
      const whole = await loadFixture("int8-matmul.onnx");
      await expect(
        (await makeRuntime()).createSession(whole.subarray(0, whole.length >> 1)),
      ).rejects.toMatchObject({ code: "session_failed" });
    });

    it("rejects a model with external data", async () => {
      await expect(
        (await makeRuntime()).createSession(await loadFixture("external-data.onnx")),
      ).rejects.toMatchObject({ code: "session_failed" });
    });
  });
}
