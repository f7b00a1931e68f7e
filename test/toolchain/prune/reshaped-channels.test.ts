// Channel pruning through shape operators: flattening, shape inputs, and attention heads.
import { describe, expect, it } from "vitest";
import type { Model } from "../../../src/toolchain/onnx/model-file.ts";
import { findAttribute, makeIntAttribute } from "../../../src/toolchain/onnx/nodes.ts";
import type { NodeProto, TensorProto } from "../../../src/toolchain/onnx/proto/onnx_pb.js";
import { findChannelGroups } from "../../../src/toolchain/prune/channel-groups.ts";
import { traceChannels } from "../../../src/toolchain/prune/trace-channels.ts";
import { floatTensor, int64Tensor, intListAttribute, model, node } from "../onnx/model-builders.ts";
import { constantsOf, dimsOf, measureModelShapes } from "./model-runs.ts";
import { filters, net, prune, REASONS } from "./pruning-nets.ts";

/** A convolution, a flattening, and two dense layers. */
const dense = (flattening: readonly NodeProto[], constants: readonly TensorProto[] = []): Model =>
  net({
    outputs: ["y: float [N, 3]"],
    nodes: [node("Conv x w -> c"), ...flattening, node("Gemm f m -> h"), node("MatMul h k -> y")],
    constants: [
      filters("w", [1, 9], 2, 3),
      floatTensor(
        "m",
        Array.from({ length: 16 }, (_, index) => index),
        [8, 2],
      ),
      floatTensor("k", [1, 2, 3, 4, 5, 6], [2, 3]),
      ...constants,
    ],
  });

describe("a dense layer after a convolution", () => {
  const remainingRows = [8, 9, 10, 11, 12, 13, 14, 15];

  it.each<readonly [string, Model]>([
    ["Flatten", dense([node("Flatten c -> f")])],
    ["Reshape to a constant shape", dense([node("Reshape c s -> f")], [int64Tensor("s", [-1, 8])])],
    [
      "Reshape that keeps the batch",
      dense([node("Reshape c s -> f")], [int64Tensor("s", [0, -1])]),
    ],
    [
      "Reshape to a shape computed from the input",
      dense(
        [
          node("Shape c -> all"),
          node("Gather all zero -> n"),
          node("Unsqueeze n axes -> n1"),
          node("Concat n1 rest -> s", [makeIntAttribute("axis", 0)]),
          node("Reshape c s -> f"),
        ],
        [int64Tensor("zero", [0], []), int64Tensor("axes", [0]), int64Tensor("rest", [8])],
      ),
    ],
  ])("loses the rows of a removed channel behind %s", async (_, original) => {
    const { after } = await prune(original, { ratio: new Map([["make_c", 0.5]]) });
    expect(constantsOf(after)["m"]).toEqual({ dims: [4, 2], data: remainingRows });
  });

  it("loses units together with the next layer's rows", async () => {
    const { after } = await prune(dense([node("Flatten c -> f")]), {
      ratio: new Map([["make_h", 0.5]]),
    });
    expect(constantsOf(after)).toMatchObject({
      m: { dims: [8, 1], data: [1, 3, 5, 7, 9, 11, 13, 15] },
      k: { dims: [1, 3], data: [4, 5, 6] },
    });
  });
});

describe("a shape constant of two Reshapes", () => {
  it("is copied for the one whose channels are pruned", async () => {
    const shared = net({
      outputs: ["y: float [N, 16]"],
      nodes: [
        node("Conv x w -> c"),
        node("Reshape c s -> f"),
        node("Conv x v -> d"),
        node("Reshape d s -> g"),
        node("MatMul f m -> a"),
        node("MatMul g m2 -> b"),
        node("Add a b -> y"),
      ],
      constants: [
        filters("w", [1, 9], 2),
        filters("v", [9, 1], 2),
        int64Tensor("s", [-1, 32]),
        floatTensor("m", Array<number>(512).fill(1), [32, 16]),
        floatTensor("m2", Array<number>(512).fill(2), [32, 16]),
      ],
    });
    const { after } = await prune(shared, { ratio: new Map([["make_c", 0.5]]) });
    expect(dimsOf(after)).toMatchObject({ m: [16, 16], m2: [32, 16] });
    expect(constantsOf(after)["s"]?.data).toEqual([-1, 32]);
    expect(after.graph.node[1]?.input[1]).toBe("make_f_sizes");
  });
});

/** Two convolutions, flattened by a shape that is computed from the first one's. */
const flattened = (shape: readonly NodeProto[], second: string): Model =>
  net({
    outputs: ["y: float [N, 3]"],
    nodes: [
      node("Conv x w -> c"),
      node("Conv x v -> d"),
      node("Shape c -> all"),
      ...shape,
      node("Reshape c s -> f"),
      node(`Reshape d ${second} -> g`),
      node("MatMul f m -> a"),
      node("MatMul g m2 -> b"),
      node("Add a b -> y"),
    ],
    constants: [
      filters("w", [1, 9], 2, 3),
      filters("v", [9, 1], 2, 3),
      ...["m", "m2"].map((name) => floatTensor(name, Array<number>(24).fill(1), [8, 3])),
      int64Tensor("zero", [0]),
      int64Tensor("one", [1]),
      int64Tensor("two", [2]),
      int64Tensor("four", [4]),
      int64Tensor("rest", [8]),
      int64Tensor("flat", [-1, 8]),
    ],
  });
const concat = (...parts: readonly string[]) =>
  node(`Concat ${parts.join(" ")} -> s`, [makeIntAttribute("axis", 0)]);
async function findReasons(original: Model): Promise<Record<string, string>> {
  const trace = traceChannels(original, await measureModelShapes(original));
  return Object.fromEntries(
    findChannelGroups(trace).unprunable.map(({ layer, reason }) => [layer, reason]),
  );
}

describe("shape inputs that cannot be rewritten", () => {
  const batch = node("Gather all zero -> n");

  it.each<readonly [string, Model, Readonly<Record<string, string>>]>([
    [
      "one shape for two Reshapes",
      flattened([batch, concat("n", "rest")], "s"),
      {
        make_c: REASONS.shapeInput("Reshape make_f"),
        make_d: REASONS.shapeInput("Reshape make_g"),
      },
    ],
    [
      "a part that another node reads",
      flattened(
        [batch, concat("n", "rest"), node("Concat n rest -> t", [makeIntAttribute("axis", 0)])],
        "t",
      ),
      {
        make_c: REASONS.shapeInput("Reshape make_f"),
        make_d: REASONS.shapeInput("Reshape make_g"),
      },
    ],
    [
      "a computation with the channel count",
      flattened(
        [batch, node("Gather all one -> k"), node("Mul k four -> k4"), concat("n", "k4")],
        "flat",
      ),
      { make_c: REASONS.channelCount("Mul make_k4") },
    ],
    [
      "the channel count of another tensor",
      flattened(
        [
          batch,
          node("Slice all one two -> k"),
          node("Mul k four -> k4"),
          node("Concat n k4 -> t", [makeIntAttribute("axis", 0)]),
          concat("n", "rest"),
        ],
        "t",
      ),
      {
        make_c: REASONS.channelCount("Mul make_k4"),
        make_d: REASONS.shapeInput("Reshape make_g"),
      },
    ],
  ])("freeze the channels: %s", async (_, original, expected) => {
    expect(await findReasons(original)).toMatchObject(expected);
  });
});

describe("attention", () => {
  it("loses the same channels in each head, of queries with keys, and of values", async () => {
    const heads = (name: string) => [
      node(`MatMul x ${name} -> ${name}1`),
      node(`Reshape ${name}1 cut -> ${name}2`),
      node(`Transpose ${name}2 -> ${name}3`, [
        intListAttribute("perm", name === "k" ? [0, 2, 3, 1] : [0, 2, 1, 3]),
      ]),
    ];
    const weights = (name: string) =>
      floatTensor(
        name,
        Array.from({ length: 32 }, (_, index) => ((index % 8) % 4) + 1),
        [4, 8],
      );
    const attention = model({
      inputs: ["x: float [N, T, 4]"],
      outputs: ["y: float [N, T, 4]"],
      nodes: [
        ...heads("q"),
        ...heads("k"),
        ...heads("v"),
        node("MatMul q3 k3 -> scores"),
        node("Softmax scores -> share"),
        node("MatMul share v3 -> read"),
        node("Transpose read -> back", [intListAttribute("perm", [0, 2, 1, 3])]),
        node("Reshape back whole -> joined"),
        node("MatMul joined o -> y"),
      ],
      constants: [
        weights("q"),
        weights("k"),
        weights("v"),
        floatTensor(
          "o",
          Array.from({ length: 32 }, (_, index) => index),
          [8, 4],
        ),
        int64Tensor("cut", [0, 0, 2, 4]),
        int64Tensor("whole", [0, 0, 8]),
      ],
    });
    const { after, groups } = await prune(attention);
    expect(groups).toMatchObject([
      { layers: ["make_q1", "make_k1"], channels: 8, removed: 4 },
      { layers: ["make_v1"], channels: 8, removed: 4 },
    ]);
    expect(constantsOf(after)).toMatchObject({
      q: { dims: [4, 4], data: [3, 4, 3, 4, 3, 4, 3, 4, 3, 4, 3, 4, 3, 4, 3, 4] },
      o: { dims: [4, 4], data: [8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31] },
    });
    expect(findAttribute(after.graph.node[1] ?? node("A b -> c"), "allowzero")).toBeUndefined();
  });
});
