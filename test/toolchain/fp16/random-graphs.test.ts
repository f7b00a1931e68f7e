// Tests the conversion of random graphs: with any kept nodes, ONNX Runtime runs the result with
// similar outputs.
import fc from "fast-check";
import { expect, it } from "vitest";
import { createNativeRuntime } from "../../../src/runtime/native/native-runtime.ts";
import { compareModels } from "../../../src/toolchain/fp16/compare-models.ts";
import { convertToFp16 } from "../../../src/toolchain/fp16/convert-to-fp16.ts";
import { type Model, parseModel, serializeModel } from "../../../src/toolchain/onnx/model-file.ts";
import { makeIntAttribute } from "../../../src/toolchain/onnx/nodes.ts";
import type { NodeProto } from "../../../src/toolchain/onnx/proto/onnx_pb.js";
import { propertyRuns } from "../../support/property-runs.ts";
import {
  subgraphAttribute,
  floatTensor,
  graph,
  int64Tensor,
  model,
  node,
} from "../onnx/model-builders.ts";
import { findRedundantCasts } from "./redundant-casts.ts";

const runtime = createNativeRuntime({ intraOpThreads: 1 });

/** Creates nodes that compute `y` from the FP32 values `a` and `b`, all within -2 to 2. */
const nodeFactories: readonly ((a: string, b: string, y: string) => NodeProto[])[] = [
  (a, _, y) => [node(`Tanh ${a} -> ${y}`)],
  (a, _, y) => [node(`Identity ${a} -> ${y}`)],
  (a, _, y) => [node(`Reshape ${a} same -> ${y}`)],
  (a, b, y) => [node(`Max ${a} ${b} -> ${y}`)],
  (a, b, y) => [node(`Mean ${a} ${b} c -> ${y}`)],
  (a, b, y) => [node(`Mul ${a} ${b} -> ${y}_0`), node(`Clip ${y}_0 low high -> ${y}`)],
  (a, _, y) => [node(`CumSum ${a} axis -> ${y}_0`), node(`Tanh ${y}_0 -> ${y}`)],
  (a, _, y) => [
    node(`Greater ${a} far -> ${y}_0`),
    node(`Cast ${y}_0 -> ${y}`, [makeIntAttribute("to", 1)]),
  ],
  (a, _, y) => [
    node(`Cast ${a} -> ${y}_0`, [makeIntAttribute("to", 10)]),
    node(`Abs ${y}_0 -> ${y}_1`),
    node(`Cast ${y}_1 -> ${y}`, [makeIntAttribute("to", 1)]),
  ],
  (a, b, y) => [
    node(`ReduceMax ${b} -> ${y}_0`, [makeIntAttribute("keepdims", 0)]),
    node(`Greater ${y}_0 high -> ${y}_1`),
    node(`If ${y}_1 -> ${y}`, [branch("then_branch", a, b), branch("else_branch", b, a)]),
  ],
];
const branch = (name: string, a: string, b: string) =>
  subgraphAttribute(
    name,
    graph({
      outputs: ["inner: float [4]"],
      constants: [floatTensor("k", [0.5])],
      nodes: [node(`Mul ${a} k -> half`), node(`Max half ${b} -> inner`)],
    }),
  );

const arbitraryIndex = fc.nat({ max: 1000 });
const arbitraryModel = fc
  .tuple(
    fc.array(fc.tuple(arbitraryIndex, arbitraryIndex, arbitraryIndex), {
      minLength: 1,
      maxLength: 12,
    }),
    fc.array(arbitraryIndex, { minLength: 1, maxLength: 3 }),
  )
  .map(([choices, outputIndices]): Model => {
    const names = ["x", "c", "input"];
    const nodes = choices.flatMap(([step, a, b], index) => {
      const [left = "x", right = "x", name] = [
        names[a % names.length],
        names[b % names.length],
        `v${index}`,
      ];
      names.push(name);
      return nodeFactories[step % nodeFactories.length]?.(left, right, name) ?? [];
    });
    const outputs = [...new Set(outputIndices.map((index) => names[index % names.length]))].map(
      (name) => `${name}: float [4]`,
    );
    return model({
      opset: 18,
      inputs: ["x: float [4]", "input: float [4]"],
      outputs,
      nodes,
      constants: [
        floatTensor("c", [0.3, -0.7, 1.1, 0]),
        floatTensor("low", [-2], []),
        floatTensor("high", [2], []),
        floatTensor("far", [-3], []),
        int64Tensor("same", [4]),
        int64Tensor("axis", [0], []),
      ],
    });
  });

it("converts any graph to a runnable one without redundant casts, and keeps the requested nodes", async () => {
  await fc.assert(
    fc.asyncProperty(
      arbitraryModel,
      fc.array(arbitraryIndex, { maxLength: 4 }),
      fc.constantFrom("fp32" as const, "fp16" as const),
      async (original, keepIndices, io) => {
        const before = serializeModel(original);
        const converted = parseModel(before);
        // Kept Casts would count as redundant ones.
        const candidates = original.graph.node.filter(({ opType }) => opType !== "Cast");
        const keep = keepIndices.flatMap(
          (index) => candidates[index % candidates.length]?.name ?? [],
        );
        const { kept } = convertToFp16(converted, { keep, io });
        const reasons = new Set([
          "kept on request",
          "only moves values that are in FP32 anyway",
          "belongs to the body of a node in FP32",
        ]);
        expect(
          kept.filter(
            ({ op, reason, node }) =>
              op !== "CumSum" &&
              !(reasons.has(reason) && (reason !== "kept on request" || keep.includes(node))),
          ),
        ).toEqual([]);
        expect(findRedundantCasts(converted)).toEqual([]);
        const { outputs } = await compareModels(runtime, before, serializeModel(converted));
        for (const { maxAbsolute, lost } of outputs) {
          expect(lost).toBe(0);
          expect(maxAbsolute).toBeLessThan(0.02);
        }
      },
    ),
    { numRuns: propertyRuns(150), seed: 1 },
  );
});
