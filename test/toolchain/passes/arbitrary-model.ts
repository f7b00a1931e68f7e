// Generates random graphs with the patterns that passes look for: foldable constants, biases,
// Identity, bodies with outer reads.
import fc from "fast-check";
import type { Model } from "../../../src/toolchain/onnx/model-file.ts";
import { makeIntAttribute, makeTensorAttribute } from "../../../src/toolchain/onnx/nodes.ts";
import type { NodeProto, TensorProto } from "../../../src/toolchain/onnx/proto/onnx_pb.js";
import { seededRandom } from "../../../src/toolchain/seeded-random.ts";
import {
  subgraphAttribute,
  floatAttribute,
  floatTensor,
  graph,
  int64Tensor,
  model,
  node,
} from "../onnx/model-builders.ts";

const WIDTH = 4;
const random = seededRandom(5);
const numbers = (count: number) => Array.from({ length: count }, () => random() - 0.5);

const constants: readonly TensorProto[] = [
  floatTensor("w", numbers(WIDTH * WIDTH), [WIDTH, WIDTH]),
  floatTensor("w_again", numbers(WIDTH * WIDTH), [WIDTH, WIDTH]),
  floatTensor("b", numbers(WIDTH)),
  floatTensor("row", numbers(WIDTH), [1, WIDTH]),
  floatTensor("one", [0.3], []),
  floatTensor("high", [10], []),
  floatTensor("factors", [0.5, 2, 1, 0.1]),
  floatTensor("shifts", numbers(WIDTH)),
  floatTensor("means", numbers(WIDTH)),
  floatTensor("variances", [1, 0.5, 2, 0.1]),
  int64Tensor("same", [-1, WIDTH]),
];

const branchAttribute = (name: string, a: string, b: string, y: string) =>
  subgraphAttribute(
    name,
    graph({
      outputs: [`${y}_${name}: float [N, 4]`],
      constants: [floatTensor(`${y}_${name}_k`, [0.5])],
      nodes: [
        node(`Mul ${a} ${y}_${name}_k -> ${y}_${name}_half`),
        node(`Identity ${y}_${name}_half -> ${y}_${name}_same`),
        node(`Max ${y}_${name}_same ${b} -> ${y}_${name}`),
      ],
    }),
  );

/** Creates nodes that compute `y` [N, 4] in FP32 from the values `a` and `b`. */
const nodeFactories: readonly ((a: string, b: string, y: string) => NodeProto[])[] = [
  (a, _, y) => [node(`Tanh ${a} -> ${y}`)],
  (a, b, y) => [node(`Add ${a} ${b} -> ${y}`)],
  (a, b, y) => [node(`Mul ${a} ${b} -> ${y}_0`), node(`Tanh ${y}_0 -> ${y}`)],
  (a, _, y) => [node(`Identity ${a} -> ${y}`)],
  (a, _, y) => [node(`Dropout ${a} -> ${y}`)],
  (a, _, y) => [node(`Reshape ${a} same -> ${y}`)],
  (a, _, y) => [node(`MatMul ${a} w -> ${y}_0`), node(`Add b ${y}_0 -> ${y}`)],
  (a, _, y) => [node(`MatMul ${a} w_again -> ${y}`)],
  (a, _, y) => [
    node(`Gemm ${a} w b -> ${y}_0`, [floatAttribute("beta", 0.5), makeIntAttribute("transB", 1)]),
    node(`Add ${y}_0 row -> ${y}`),
  ],
  (a, _, y) => [
    node(`Gemm ${a} w -> ${y}_0`, [floatAttribute("alpha", 0.5)]),
    node(`BatchNormalization ${y}_0 factors shifts means variances -> ${y}`),
  ],
  (a, _, y) => [node(`Add ${a} one -> ${y}`)],
  (a, _, y) => [
    node(`Mul b row -> ${y}_0`),
    node(`Sqrt high -> ${y}_1`),
    node(`Div ${y}_0 ${y}_1 -> ${y}_2`),
    node(`Add ${a} ${y}_2 -> ${y}`),
  ],
  (a, _, y) => [
    node(`Constant -> ${y}_0`, [makeTensorAttribute("value", floatTensor("", numbers(WIDTH)))]),
    node(`Mul ${a} ${y}_0 -> ${y}`),
  ],
  (a, _, y) => [
    node(`Cast ${a} -> ${y}_0`, [makeIntAttribute("to", 11)]),
    node(`Cast ${y}_0 -> ${y}`, [makeIntAttribute("to", 1)]),
  ],
  (a, b, y) => [
    node(`ReduceMax ${b} -> ${y}_0`, [makeIntAttribute("keepdims", 0)]),
    node(`Greater ${y}_0 one -> ${y}_1`),
    node(`If ${y}_1 -> ${y}`, [
      branchAttribute("then_branch", a, b, y),
      branchAttribute("else_branch", b, a, y),
    ]),
  ],
];

const arbitraryIndex = fc.nat({ max: 1000 });

export interface GeneratedModel {
  readonly model: Model;
  /** Names of values that the main graph's nodes produce, in order. */
  readonly valueNames: readonly string[];
}

export const arbitraryModel: fc.Arbitrary<GeneratedModel> = fc
  .tuple(
    fc.array(fc.tuple(arbitraryIndex, arbitraryIndex, arbitraryIndex), {
      minLength: 1,
      maxLength: 14,
    }),
    fc.array(arbitraryIndex, { minLength: 1, maxLength: 3 }),
  )
  .map(([choices, outputIndices]) => {
    const names = ["x", "z"];
    const nodes = choices.flatMap(([step, a, b], index) => {
      const [left = "x", right = "x", name] = [
        names[a % names.length],
        names[b % names.length],
        `v${index}`,
      ];
      names.push(name);
      return nodeFactories[step % nodeFactories.length]?.(left, right, name) ?? [];
    });
    const valueNames = names.slice(2);
    const outputs = [
      ...new Set(outputIndices.map((index) => valueNames[index % valueNames.length])),
    ].map((name) => `${name}: float [N, 4]`);
    return {
      model: model({
        opset: 17,
        irVersion: 8,
        inputs: ["x: float [N, 4]", "z: float [N, 4]"],
        outputs,
        nodes,
        constants,
        valueInfo: valueNames
          .map((name) => `${name}: float [N, 4]`)
          .filter((info) => !outputs.includes(info)),
      }),
      valueNames,
    };
  });
