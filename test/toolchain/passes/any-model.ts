// Graphs made at random, with all in them that passes look for: constants to compute, biases, Identity, bodies that read from outside.
import fc from "fast-check";
import type { Model } from "../../../src/toolchain/onnx/model-file.ts";
import { intAttribute, tensorAttribute } from "../../../src/toolchain/onnx/nodes.ts";
import type { NodeProto, TensorProto } from "../../../src/toolchain/onnx/proto/onnx_pb.js";
import { seededRandom } from "../../../src/toolchain/seeded-random.ts";
import { body, float, floats, graph, int64s, model, node } from "../onnx/small-model.ts";

const WIDTH = 4;
const random = seededRandom(5);
const numbers = (count: number) => Array.from({ length: count }, () => random() - 0.5);

const constants: readonly TensorProto[] = [
  floats("w", numbers(WIDTH * WIDTH), [WIDTH, WIDTH]),
  floats("w_again", numbers(WIDTH * WIDTH), [WIDTH, WIDTH]),
  floats("b", numbers(WIDTH)),
  floats("row", numbers(WIDTH), [1, WIDTH]),
  floats("one", [0.3], []),
  floats("high", [10], []),
  floats("factors", [0.5, 2, 1, 0.1]),
  floats("shifts", numbers(WIDTH)),
  floats("means", numbers(WIDTH)),
  floats("variances", [1, 0.5, 2, 0.1]),
  int64s("same", [-1, WIDTH]),
];

const branch = (name: string, a: string, b: string, y: string) =>
  body(
    name,
    graph({
      outputs: [`${y}_${name}: float [N, 4]`],
      constants: [floats(`${y}_${name}_k`, [0.5])],
      nodes: [
        node(`Mul ${a} ${y}_${name}_k -> ${y}_${name}_half`),
        node(`Identity ${y}_${name}_half -> ${y}_${name}_same`),
        node(`Max ${y}_${name}_same ${b} -> ${y}_${name}`),
      ],
    }),
  );

/** Of FP32 values [N, 4], one more such value. `a` and `b` are values read, `y` is the one made. */
const steps: readonly ((a: string, b: string, y: string) => NodeProto[])[] = [
  (a, _, y) => [node(`Tanh ${a} -> ${y}`)],
  (a, b, y) => [node(`Add ${a} ${b} -> ${y}`)],
  (a, b, y) => [node(`Mul ${a} ${b} -> ${y}_0`), node(`Tanh ${y}_0 -> ${y}`)],
  (a, _, y) => [node(`Identity ${a} -> ${y}`)],
  (a, _, y) => [node(`Dropout ${a} -> ${y}`)],
  (a, _, y) => [node(`Reshape ${a} same -> ${y}`)],
  (a, _, y) => [node(`MatMul ${a} w -> ${y}_0`), node(`Add b ${y}_0 -> ${y}`)],
  (a, _, y) => [node(`MatMul ${a} w_again -> ${y}`)],
  (a, _, y) => [
    node(`Gemm ${a} w b -> ${y}_0`, [float("beta", 0.5), intAttribute("transB", 1)]),
    node(`Add ${y}_0 row -> ${y}`),
  ],
  (a, _, y) => [
    node(`Gemm ${a} w -> ${y}_0`, [float("alpha", 0.5)]),
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
    node(`Constant -> ${y}_0`, [tensorAttribute("value", floats("", numbers(WIDTH)))]),
    node(`Mul ${a} ${y}_0 -> ${y}`),
  ],
  (a, _, y) => [
    node(`Cast ${a} -> ${y}_0`, [intAttribute("to", 11)]),
    node(`Cast ${y}_0 -> ${y}`, [intAttribute("to", 1)]),
  ],
  (a, b, y) => [
    node(`ReduceMax ${b} -> ${y}_0`, [intAttribute("keepdims", 0)]),
    node(`Greater ${y}_0 one -> ${y}_1`),
    node(`If ${y}_1 -> ${y}`, [branch("then_branch", a, b, y), branch("else_branch", b, a, y)]),
  ],
];

const pick = fc.nat({ max: 1000 });

export interface AnyModel {
  readonly model: Model;
  /** Names of values that nodes of the main graph make, in order. */
  readonly made: readonly string[];
}

export const anyModel: fc.Arbitrary<AnyModel> = fc
  .tuple(
    fc.array(fc.tuple(pick, pick, pick), { minLength: 1, maxLength: 14 }),
    fc.array(pick, { minLength: 1, maxLength: 3 }),
  )
  .map(([choices, wanted]) => {
    const names = ["x", "z"];
    const nodes = choices.flatMap(([step, a, b], index) => {
      const [left = "x", right = "x", name] = [
        names[a % names.length],
        names[b % names.length],
        `v${index}`,
      ];
      names.push(name);
      return steps[step % steps.length]?.(left, right, name) ?? [];
    });
    const made = names.slice(2);
    const outputs = [...new Set(wanted.map((index) => made[index % made.length]))].map(
      (name) => `${name}: float [N, 4]`,
    );
    return {
      model: model({
        opset: 17,
        irVersion: 8,
        inputs: ["x: float [N, 4]", "z: float [N, 4]"],
        outputs,
        nodes,
        constants,
        valueInfo: made
          .map((name) => `${name}: float [N, 4]`)
          .filter((info) => !outputs.includes(info)),
      }),
      made,
    };
  });
