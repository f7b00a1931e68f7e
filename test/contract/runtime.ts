// What every Runtime must do. Model bytes come through a callback, so that the suite also runs where there are no files.
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { NamedTensors, Tensor } from "../../src/core/tensor.ts";
import type { Runtime, Session } from "../../src/runtime/runtime.ts";

/** @param loadFixture gives the bytes of test/fixtures/<name> */
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

      it("computes the known answers, of one row and of several", async () => {
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

      const wrong: [what: string, inputs: NamedTensors, detail: RegExp][] = [
        ["a missing input", {}, /"x": the input is missing/],
        [
          "an unknown input",
          { x: x([1, 2, 3]), z: x([1, 2, 3]) },
          /"z": the model has no such input/,
        ],
        [
          "an input that only objects have",
          Object.fromEntries([["__proto__", x([1, 2, 3])]]),
          /"__proto__": the model has no such input/,
        ],
        [
          "another datatype",
          { x: { datatype: "INT8", shape: [1, 3], data: new Int8Array(3) } },
          /datatype INT8, expected UINT8/,
        ],
        [
          "another dimension",
          { x: { datatype: "UINT8", shape: [1, 4], data: new Uint8Array(4) } },
          /shape \[1, 4\], expected \[-1, 3\]/,
        ],
        [
          "another rank",
          { x: { datatype: "UINT8", shape: [3], data: new Uint8Array(3) } },
          /shape \[3\]/,
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
          /3 elements, but its shape has 6/,
        ],
      ];
      it.each(wrong)("refuses %s, and goes on working", async (_what, inputs, detail) => {
        await expect(session.run(inputs)).rejects.toMatchObject({
          code: "invalid_tensor",
          status: 400,
          detail: expect.stringMatching(detail),
        });
        expect((await session.run({ x: x([1, 2, 3]) }))["y"]?.data).toEqual(Int32Array.of(2, 44));
      });

      it("finishes runs that were accepted before dispose, and refuses those after", async () => {
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
        await session.dispose(); // again: no harm
      });
    });

    it("keeps 64-bit integers exact, and does not hold on to the input", async () => {
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

    it("takes an empty tensor", async () => {
      const session = await open("int64-identity.onnx");
      expect(
        await session.run({ x: { datatype: "INT64", shape: [0], data: new BigInt64Array() } }),
      ).toEqual({
        y: { datatype: "INT64", shape: [0], data: new BigInt64Array() },
      });
    });

    it("runs a graph of several inputs", async () => {
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

    it("reports a graph that fails while running, and goes on working", async () => {
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
      ["nothing", () => new Uint8Array()],
      ["garbage", () => Uint8Array.from({ length: 1000 }, (_, index) => (index * 37) % 256)],
    ])("refuses a model of %s, and goes on working", async (_what, bytes) => {
      const runtime = await makeRuntime();
      await expect(runtime.createSession(bytes())).rejects.toMatchObject({
        code: "session_failed",
      });
      const session = await runtime.createSession(await loadFixture("int8-matmul.onnx"));
      sessions.push(session);
      expect(session.inputs).toHaveLength(1);
    });

    it("refuses a model that is cut off", async () => {
      const whole = await loadFixture("int8-matmul.onnx");
      await expect(
        (await makeRuntime()).createSession(whole.subarray(0, whole.length >> 1)),
      ).rejects.toMatchObject({ code: "session_failed" });
    });

    it("refuses a model that would read a file", async () => {
      await expect(
        (await makeRuntime()).createSession(await loadFixture("external-data.onnx")),
      ).rejects.toMatchObject({ code: "session_failed" });
    });
  });
}
