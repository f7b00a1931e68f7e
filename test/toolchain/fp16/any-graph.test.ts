// Conversion of graphs made at random: whatever is kept, ONNX Runtime takes the result, which answers almost as before.
import fc from "fast-check";
import { expect, it } from "vitest";
import { compareModels } from "../../../src/toolchain/fp16/compare.ts";
import { convertToFp16 } from "../../../src/toolchain/fp16/convert.ts";
import { type Model, readModel, writeModel } from "../../../src/toolchain/onnx/model-file.ts";
import { intAttribute } from "../../../src/toolchain/onnx/nodes.ts";
import type { NodeProto } from "../../../src/toolchain/onnx/proto/onnx_pb.js";
import { createNativeRuntime } from "../../../src/runtime/native/native-runtime.ts";
import { body, floats, graph, int64s, model, node } from "../onnx/small-model.ts";
import { needlessCasts } from "./needless-casts.ts";

const runtime = createNativeRuntime({ intraOpThreads: 1 });

/** Of values in FP32 that are -2 to 2, one more such value. `a` and `b` are the values read; `y` the one made. */
const steps: readonly ((a: string, b: string, y: string) => NodeProto[])[] = [
  (a, _, y) => [node(`Tanh ${a} -> ${y}`)],
  (a, _, y) => [node(`Identity ${a} -> ${y}`)],
  (a, _, y) => [node(`Reshape ${a} same -> ${y}`)],
  (a, b, y) => [node(`Max ${a} ${b} -> ${y}`)],
  (a, b, y) => [node(`Mean ${a} ${b} c -> ${y}`)],
  (a, b, y) => [node(`Mul ${a} ${b} -> ${y}_0`), node(`Clip ${y}_0 low high -> ${y}`)],
  (a, _, y) => [node(`CumSum ${a} axis -> ${y}_0`), node(`Tanh ${y}_0 -> ${y}`)],
  (a, _, y) => [
    node(`Greater ${a} far -> ${y}_0`),
    node(`Cast ${y}_0 -> ${y}`, [intAttribute("to", 1)]),
  ],
  (a, _, y) => [
    node(`Cast ${a} -> ${y}_0`, [intAttribute("to", 10)]),
    node(`Abs ${y}_0 -> ${y}_1`),
    node(`Cast ${y}_1 -> ${y}`, [intAttribute("to", 1)]),
  ],
  (a, b, y) => [
    node(`ReduceMax ${b} -> ${y}_0`, [intAttribute("keepdims", 0)]),
    node(`Greater ${y}_0 high -> ${y}_1`),
    node(`If ${y}_1 -> ${y}`, [branch("then_branch", a, b), branch("else_branch", b, a)]),
  ],
];
const branch = (name: string, a: string, b: string) =>
  body(
    name,
    graph({
      outputs: ["inner: float [4]"],
      constants: [floats("k", [0.5])],
      nodes: [node(`Mul ${a} k -> half`), node(`Max half ${b} -> inner`)],
    }),
  );

const pick = fc.nat({ max: 1000 });
const anyModel = fc
  .tuple(
    fc.array(fc.tuple(pick, pick, pick), { minLength: 1, maxLength: 12 }),
    fc.array(pick, { minLength: 1, maxLength: 3 }),
  )
  .map(([choices, wanted]): Model => {
    const names = ["x", "c", "input"];
    const nodes = choices.flatMap(([step, a, b], index) => {
      const [left = "x", right = "x", name] = [
        names[a % names.length],
        names[b % names.length],
        `v${index}`,
      ];
      names.push(name);
      return steps[step % steps.length]?.(left, right, name) ?? [];
    });
    const outputs = [...new Set(wanted.map((index) => names[index % names.length]))].map(
      (name) => `${name}: float [4]`,
    );
    return model({
      opset: 18,
      inputs: ["x: float [4]", "input: float [4]"],
      outputs,
      nodes,
      constants: [
        floats("c", [0.3, -0.7, 1.1, 0]),
        floats("low", [-2], []),
        floats("high", [2], []),
        floats("far", [-3], []),
        int64s("same", [4]),
        int64s("axis", [0], []),
      ],
    });
  });

it("gives a graph that runs, has no needless casts, and keeps what it is told to", async () => {
  await fc.assert(
    fc.asyncProperty(
      anyModel,
      fc.array(pick, { maxLength: 4 }),
      fc.constantFrom("fp32" as const, "fp16" as const),
      async (original, keptAt, io) => {
        const before = writeModel(original);
        const converted = readModel(before);
        const candidates = original.graph.node.filter(({ opType }) => opType !== "Cast"); // which would be what is needless
        const keep = keptAt.flatMap((index) => candidates[index % candidates.length]?.name ?? []);
        const { kept } = convertToFp16(converted, { keep, io });
        const reasons = new Set([
          "as asked for",
          "only moves what is in FP32 anyway",
          "in the body of a node that is kept",
        ]);
        expect(
          kept.filter(
            ({ op, reason, node }) =>
              op !== "CumSum" &&
              !(reasons.has(reason) && (reason !== "as asked for" || keep.includes(node))),
          ),
        ).toEqual([]);
        expect(needlessCasts(converted)).toEqual([]);
        const { outputs } = await compareModels(runtime, before, writeModel(converted));
        for (const { maxAbsolute, lost } of outputs) {
          expect(lost).toBe(0);
          expect(maxAbsolute).toBeLessThan(0.02);
        }
      },
    ),
    { numRuns: 150, seed: 1 },
  );
});
