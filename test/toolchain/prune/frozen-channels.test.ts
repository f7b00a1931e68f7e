// Frozen channels: operators and graphs whose channels pruning keeps, and the reported reasons.
import { describe, expect, it } from "vitest";
import { makeIntAttribute } from "../../../src/toolchain/onnx/nodes.ts";
import type { NodeProto, TensorProto } from "../../../src/toolchain/onnx/proto/onnx_pb.js";
import { makeTensor } from "../../../src/toolchain/onnx/tensor-data.ts";
import {
  subgraphAttribute,
  floatTensor,
  graph,
  int64Tensor,
  int8Tensor,
  intListAttribute,
  node,
} from "../onnx/model-builders.ts";
import { filters, net, prune, REASONS } from "./pruning-nets.ts";

/** Returns the freeze reason of the first convolution in front of the nodes. */
async function findReason(
  nodes: readonly NodeProto[],
  constants: readonly TensorProto[] = [],
): Promise<string | undefined> {
  const { unprunable } = await prune(
    net({
      nodes: [node("Conv x w -> c"), ...nodes, node("Conv m v -> d"), node("Conv d u -> y")],
      constants: [
        filters("w", [1, 2], 2),
        filters("v", [1, 2], 2),
        filters("u", [1], 2),
        ...constants,
      ],
    }),
  );
  return unprunable.find(({ layer }) => layer === "make_c")?.reason;
}

type FreezeCase = readonly [string, readonly NodeProto[], readonly TensorProto[], string];
const FREEZE_CASES: readonly FreezeCase[] = [
  [
    "an operator without a rule",
    [node("CumSum c axis -> m")],
    [int64Tensor("axis", [1], [])],
    REASONS.noRule("CumSum make_m"),
  ],
  [
    "a normalization by neighboring channels",
    [node("LRN c -> m", [makeIntAttribute("size", 3)])],
    [],
    REASONS.combines("LRN make_m"),
  ],
  [
    "a reversed slice",
    [node("Slice c last first axes back -> m")],
    [
      int64Tensor("last", [-1]),
      int64Tensor("first", [-9]),
      int64Tensor("axes", [1]),
      int64Tensor("back", [-1]),
    ],
    REASONS.noRule("Slice make_m"),
  ],
  [
    "the indices of MaxPool",
    [node("MaxPool c -> m indices", [intListAttribute("kernel_shape", [1, 1])])],
    [],
    REASONS.noRule("MaxPool make_m"),
  ],
  [
    "a softmax over channels",
    [node("Softmax c -> m", [makeIntAttribute("axis", 1)])],
    [],
    REASONS.combines("Softmax make_m"),
  ],
  [
    "a mean over channels",
    [node("ReduceMean c axes -> mean"), node("Sub c mean -> m")],
    [int64Tensor("axes", [1])],
    REASONS.combines("ReduceMean make_mean"),
  ],
  [
    "a gather along channels",
    [node("Gather c at -> m", [makeIntAttribute("axis", 1)])],
    [int64Tensor("at", [1, 0])],
    REASONS.selects("Gather make_m"),
  ],
  [
    "a slice along channels",
    [
      node("Slice c from to axes -> half"),
      node("Concat half half -> m", [makeIntAttribute("axis", 1)]),
    ],
    [int64Tensor("from", [0]), int64Tensor("to", [1]), int64Tensor("axes", [1])],
    REASONS.resizes("Slice make_half"),
  ],
  [
    "a subgraph",
    [
      node("If yes -> m", [
        subgraphAttribute(
          "then_branch",
          graph({ outputs: ["a: float [N, 2, 4, 4]"], nodes: [node("Neg c -> a")] }),
        ),
        subgraphAttribute(
          "else_branch",
          graph({ outputs: ["b: float [N, 2, 4, 4]"], nodes: [node("Abs c -> b")] }),
        ),
      ]),
    ],
    [makeTensor("yes", "bool", [], Uint8Array.of(1))],
    REASONS.subgraph("c"),
  ],
];

describe("frozen channels", () => {
  it.each(FREEZE_CASES)("have a reason: %s", async (_, nodes, constants, reason) => {
    expect(await findReason(nodes, constants)).toBe(reason);
  });
});

describe("a graph without prunable channels", () => {
  it("is rejected for an opset before 7, whose operators broadcast differently", async () => {
    const old = net({
      opset: 6,
      nodes: [node("Conv x w -> c"), node("Conv c v -> y")],
      constants: [filters("w", [1, 2], 2), filters("v", [1], 2)],
    });
    await expect(prune(old)).rejects.toMatchObject({
      code: "nothing_to_prune",
      detail: expect.stringMatching(/\bopset 6\b/),
    });
  });

  it("is rejected after quantization, with the reason of each layer", async () => {
    const quantized = net({
      nodes: [node("DequantizeLinear q scale -> w"), node("Conv x w -> c"), node("Conv c v -> y")],
      constants: [
        int8Tensor("q", [1, 2, 3, 4], [2, 2, 1, 1]),
        floatTensor("scale", [1], []),
        filters("v", [1, 2], 2),
      ],
    });
    await expect(prune(quantized)).rejects.toMatchObject({
      code: "nothing_to_prune",
      detail: expect.stringContaining(`make_y: ${REASONS.graphOutput("y")}`),
    });
  });
});
