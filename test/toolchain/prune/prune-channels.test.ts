// Pruning by channel on graphs of a few nodes, each with the result that a reader can work out.
import { describe, expect, it } from "vitest";
import type { Model } from "../../../src/toolchain/onnx/model-file.ts";
import { findAttribute, makeIntAttribute } from "../../../src/toolchain/onnx/nodes.ts";
import type { NodeProto, TensorProto } from "../../../src/toolchain/onnx/proto/onnx_pb.js";
import { makeTensor } from "../../../src/toolchain/onnx/tensor-data.ts";
import {
  pruneChannels,
  type PruneChannelsOptions,
} from "../../../src/toolchain/prune/prune-channels.ts";
import { findChannelGroups } from "../../../src/toolchain/prune/channel-groups.ts";
import { traceChannels } from "../../../src/toolchain/prune/trace-channels.ts";
import {
  subgraphAttribute,
  floatTensor,
  graph,
  int64Tensor,
  int8Tensor,
  intListAttribute,
  model,
  node,
} from "../onnx/model-builders.ts";
import {
  constantsOf,
  cloneModel,
  measureDifference,
  dimsOf,
  measureModelShapes,
} from "./model-runs.ts";

/** Filters of one number each: channel c of `sizes` has the weights sizes[c], over all its inputs. */
const filters = (name: string, sizes: readonly number[], inputs: number, side = 1): TensorProto =>
  floatTensor(
    name,
    sizes.flatMap((size) => Array.from({ length: inputs * side * side }, () => size)),
    [sizes.length, inputs, side, side],
  );

interface NetParts {
  readonly nodes: readonly NodeProto[];
  readonly constants: readonly TensorProto[];
  readonly inputs?: readonly string[];
  readonly outputs?: readonly string[];
  readonly valueInfo?: readonly string[];
  readonly opset?: number;
  readonly domains?: readonly string[];
}
const net = (parts: NetParts): Model =>
  model({ inputs: ["x: float [N, 2, 4, 4]"], outputs: ["y: float [N, K, H, W]"], ...parts });

/** To any number of channels, unless `options` say otherwise. */
async function pruned(original: Model, options: PruneChannelsOptions = { ratio: 0.5 }) {
  const after = cloneModel(original);
  const report = pruneChannels(after, await measureModelShapes(original), {
    multiple: 1,
    ...options,
  });
  await measureDifference(original, after); // it runs
  return { after, ...report };
}

describe("a layer's channels", () => {
  const chain = (): Model =>
    net({
      nodes: [node("Conv x w b -> c"), node("Relu c -> r"), node("Conv r v -> y")],
      constants: [
        filters("w", [3, -1, 0.5, -4], 2),
        floatTensor("b", [1, 2, 3, 4]),
        floatTensor("v", [1, 2, 3, 4, 5, 6, 7, 8], [2, 4, 1, 1]),
      ],
      valueInfo: ["c: float [N, 4, 4, 4]", "r: float [N, 4, H, 4]"],
    });

  it("go by the L1 norm of their filters, with their biases and the next layer's weights", async () => {
    const { after, groups, unprunable: leftAlone } = await pruned(chain());
    expect(constantsOf(after)).toEqual({
      w: { dims: [2, 2, 1, 1], data: [3, 3, -4, -4] },
      b: { dims: [2], data: [1, 4] },
      v: { dims: [2, 2, 1, 1], data: [1, 4, 5, 8] },
    });
    expect(groups).toEqual([{ name: "make_c", layers: ["make_c"], channels: 4, removed: 2 }]);
    expect(leftAlone).toEqual([
      { layer: "make_y", op: "Conv", channels: 2, reason: "they are in the graph's output y" },
    ]);
  });

  it("are declared anew", async () => {
    const { after, shapes } = await pruned(chain());
    const declared = after.graph.valueInfo.map(({ type }) =>
      type?.value.case === "tensorType"
        ? type.value.value.shape?.dim.map(({ value }) => String(value.value))
        : [],
    );
    expect(declared).toEqual([
      ["N", "2", "4", "4"],
      ["N", "2", "H", "4"],
    ]);
    expect([shapes.get("c"), shapes.get("y")]).toEqual([
      [1, 2, 4, 4],
      [1, 2, 4, 4],
    ]);
  });

  it("go the same way every time, equal ones from the first on", async () => {
    const equal = (): Model =>
      net({
        nodes: [node("Conv x w -> c"), node("Conv c v -> y")],
        constants: [filters("w", [1, -1, 1, 1], 2), floatTensor("v", [1, 2, 3, 4], [1, 4, 1, 1])],
      });
    expect(constantsOf((await pruned(equal())).after)["v"]?.data).toEqual([3, 4]);
    expect(constantsOf((await pruned(equal())).after)).toEqual(
      constantsOf((await pruned(equal())).after),
    );
  });

  it.each([
    { channels: 32, ratio: 0.3, left: 24 },
    { channels: 32, ratio: 0.5, left: 16 },
    { channels: 20, ratio: 0.5, left: 16 },
    { channels: 20, ratio: 0.1, left: 20 },
    { channels: 8, ratio: 0.9, left: 8 },
  ])(
    "of $channels, with $ratio to go and a multiple of 8, leave $left",
    async ({ channels, ratio, left }) => {
      const sizes = Array.from({ length: channels }, (_, at) => at + 1);
      const wide = net({
        nodes: [node("Conv x w -> c"), node("Conv c v -> y")],
        constants: [filters("w", sizes, 2), filters("v", [1], channels)],
      });
      expect(dimsOf((await pruned(wide, { ratio, multiple: 8 })).after)).toEqual({
        w: [left, 2, 1, 1],
        v: [1, left, 1, 1],
      });
    },
  );

  it("are ranked by BatchNormalization's scale with `gamma`, and by L2 with `l2`", async () => {
    const normal = (): Model =>
      net({
        nodes: [
          node("Conv x w -> c"),
          node("BatchNormalization c scale shift mean variance -> n"),
          node("Conv n v -> h"),
          node("Conv h u -> y"),
        ],
        constants: [
          floatTensor("w", [1, 1, 1.7, 0], [2, 2, 1, 1]),
          floatTensor("scale", [-3, 2]),
          floatTensor("shift", [5, 6]),
          floatTensor("mean", [7, 8]),
          floatTensor("variance", [9, 10]),
          filters("v", [1, 2], 2),
          filters("u", [1], 2),
        ],
      });
    const byGamma = await pruned(normal(), { ratio: 0.5, importance: "gamma" });
    expect(constantsOf(byGamma.after)).toMatchObject({
      w: { data: [1, 1] },
      scale: { data: [-3] },
      shift: { data: [5] },
      mean: { data: [7] },
      variance: { data: [9] },
      v: { dims: [2, 1, 1, 1] },
    });
    expect(byGamma.unprunable[0]).toEqual({
      layer: "make_h",
      op: "Conv",
      channels: 2,
      reason: "no BatchNormalization follows it",
    });
    expect(
      constantsOf((await pruned(normal(), { ratio: 0.5, importance: "l2" })).after)["scale"]?.data,
    ).toEqual([2]);
    expect(
      constantsOf((await pruned(normal(), { ratio: 0.5, importance: "l1" })).after)["scale"]?.data,
    ).toEqual([-3]);
  });

  it("can be chosen among all layers, by one threshold", async () => {
    const two = net({
      nodes: [node("Conv x w -> c"), node("Conv c v -> d"), node("Conv d u -> y")],
      constants: [
        filters("w", [1, 1, 1, 1], 2),
        filters("v", [0.1, 9, 0.2, 0.3], 4),
        filters("u", [1], 4),
      ],
    });
    const { groups } = await pruned(two, { ratio: 0.375, scope: "model" });
    expect(groups.map(({ removed }) => removed)).toEqual([0, 3]);
    const one = await pruned(two, { ratio: new Map([["make_c", 0.25]]) });
    expect(one.groups.map(({ removed }) => removed)).toEqual([1, 0]);
  });
});

describe("channels that meet", () => {
  it("in Add go together, by the sum of what they matter", async () => {
    const residual = net({
      nodes: [
        node("Conv x w -> c"),
        node("Conv c v -> d"),
        node("Add c d -> s"),
        node("Conv s u -> y"),
      ],
      constants: [
        filters("w", [1, 2, 3, 6], 2),
        filters("v", [9, 1, 1, 1], 4),
        floatTensor("u", [1, 2, 3, 4], [1, 4, 1, 1]),
      ],
    });
    const { after, groups } = await pruned(residual);
    expect(groups).toEqual([
      { name: "make_c", layers: ["make_c", "make_d"], channels: 4, removed: 2 },
    ]);
    expect(dimsOf(after)).toEqual({ w: [2, 2, 1, 1], v: [2, 2, 1, 1], u: [1, 2, 1, 1] });
    expect(constantsOf(after)["u"]?.data).toEqual([1, 4]);
  });

  it("in Concat go each for itself, and take the next layer's weights at their place", async () => {
    const joined = net({
      nodes: [
        node("Conv x w -> c"),
        node("Conv x v -> d"),
        node("Concat c d -> j", [makeIntAttribute("axis", 1)]),
        node("Conv j u -> y"),
      ],
      constants: [
        filters("w", [2, 1], 2),
        filters("v", [5, 9, 7, 8], 2),
        floatTensor("u", [1, 2, 3, 4, 5, 6], [1, 6, 1, 1]),
      ],
    });
    const { after, groups } = await pruned(joined);
    expect(groups.map(({ name, removed }) => [name, removed])).toEqual([
      ["make_c", 1],
      ["make_d", 2],
    ]);
    expect(constantsOf(after)["u"]).toEqual({ dims: [1, 3, 1, 1], data: [1, 4, 6] });
  });

  it("in Concat beside others, and then in Add, are groups by the layers that make them", async () => {
    const crossed = net({
      nodes: [
        node("Conv x w -> c"),
        node("Conv x v -> d"),
        node("Concat c d -> j", [makeIntAttribute("axis", 1)]),
        node("Conv x t -> e"),
        node("Add j e -> s"),
        node("Conv s u -> y"),
      ],
      constants: [
        filters("w", [2, 1], 2),
        filters("v", [9, 5], 2),
        filters("t", [1, 1, 1, 1], 2),
        floatTensor("u", [1, 2, 3, 4], [1, 4, 1, 1]),
      ],
    });
    const { after, groups } = await pruned(crossed);
    expect(groups.map(({ layers, removed }) => [layers, removed])).toEqual([
      [["make_c", "make_e"], 1],
      [["make_d", "make_e"], 1],
    ]);
    expect(constantsOf(after)["u"]?.data).toEqual([1, 3]);
  });

  it("in parts of a Split are groups by part, so that none becomes empty", async () => {
    const parted = net({
      nodes: [
        node("Conv x w -> c"),
        node("Split c sizes -> a b", [makeIntAttribute("axis", 1)]),
        node("Conv a v -> d"),
        node("Conv b u -> e"),
        node("Add d e -> y"),
      ],
      constants: [
        filters("w", [1, 2, 8, 9], 2),
        int64Tensor("sizes", [2, 2]),
        floatTensor("v", [1, 2], [1, 2, 1, 1]),
        floatTensor("u", [3, 4], [1, 2, 1, 1]),
      ],
    });
    const { after, groups } = await pruned(parted);
    expect(groups.map(({ name, removed }) => [name, removed])).toEqual([
      ["make_c", 1],
      ["make_c (2)", 1],
    ]);
    expect(constantsOf(after)).toMatchObject({
      w: { data: [2, 2, 9, 9] },
      v: { data: [2] },
      u: { data: [4] },
    });
    expect(constantsOf(after)[after.graph.node[1]?.input[1] ?? ""]?.data).toEqual([1, 1]);
  });

  it("with the graph's input stay", async () => {
    const met = net({
      nodes: [
        node("Conv x w -> c"),
        node("Add c x -> s"),
        node("Conv s v -> d"),
        node("Conv d u -> y"),
      ],
      constants: [filters("w", [1, 2], 2), filters("v", [1, 2], 2), filters("u", [1], 2)],
    });
    const { unprunable: leftAlone, groups } = await pruned(met);
    expect(leftAlone[0]).toEqual({
      layer: "make_c",
      op: "Conv",
      channels: 2,
      reason: "they meet x, which is given",
    });
    expect(groups.map(({ name }) => name)).toEqual(["make_d"]);
  });
});

describe("convolutions in groups", () => {
  it("that are depthwise lose the channels that come in", async () => {
    const depthwise = net({
      nodes: [
        node("Conv x w -> c"),
        node("Conv c v -> d", [makeIntAttribute("group", 4)]),
        node("Conv d u -> y"),
      ],
      constants: [
        filters("w", [1, 2, 3, 4], 2),
        filters("v", [9, 5, 1, 5], 1),
        floatTensor("u", [1, 2, 3, 4], [1, 4, 1, 1]),
      ],
    });
    const { after, groups } = await pruned(depthwise);
    expect(groups).toEqual([
      { name: "make_c", layers: ["make_c", "make_d"], channels: 4, removed: 2 },
    ]);
    expect(constantsOf(after)["u"]?.data).toEqual([1, 4]);
    expect(findAttribute(after.graph.node[1] ?? node("A b -> c"), "group")?.i).toBe(2n);
    expect(dimsOf(after)["v"]).toEqual([2, 1, 1, 1]);
  });

  it("keep their groups, each as large as the others", async () => {
    const grouped = net({
      nodes: [
        node("Conv x w -> c"),
        node("Conv c v -> d", [makeIntAttribute("group", 2)]),
        node("Conv d u -> y"),
      ],
      constants: [
        filters("w", [9, 1, 2, 4], 2),
        filters("v", [1, 5, 6, 2], 2),
        floatTensor("u", [1, 2, 3, 4], [1, 4, 1, 1]),
      ],
    });
    const { after, groups } = await pruned(grouped, { ratio: 0.5, multiple: 2 });
    expect(groups.map(({ channels, removed }) => [channels, removed])).toEqual([
      [4, 2],
      [4, 2],
    ]);
    // Of the first layer, channels 0 and 2 matter most together; of the second, both pairs do as much, and the first goes.
    expect(constantsOf(after)["w"]?.data).toEqual([9, 9, 2, 2]);
    expect(dimsOf(after)).toEqual({ w: [2, 2, 1, 1], v: [2, 1, 1, 1], u: [1, 2, 1, 1] });
    expect(findAttribute(after.graph.node[1] ?? node("A b -> c"), "group")?.i).toBe(2n);
  });
});

describe("a dense layer", () => {
  const dense = (shape: readonly NodeProto[], constants: readonly TensorProto[] = []): Model =>
    net({
      outputs: ["y: float [N, 3]"],
      nodes: [node("Conv x w -> c"), ...shape, node("Gemm f m -> h"), node("MatMul h k -> y")],
      constants: [
        filters("w", [1, 9], 2, 3),
        floatTensor(
          "m",
          Array.from({ length: 16 }, (_, at) => at),
          [8, 2],
        ),
        floatTensor("k", [1, 2, 3, 4, 5, 6], [2, 3]),
        ...constants,
      ],
    });
  const rows = [8, 9, 10, 11, 12, 13, 14, 15];

  it.each<readonly [string, Model]>([
    ["Flatten", dense([node("Flatten c -> f")])],
    ["Reshape to a constant shape", dense([node("Reshape c s -> f")], [int64Tensor("s", [-1, 8])])],
    [
      "Reshape that keeps the batch",
      dense([node("Reshape c s -> f")], [int64Tensor("s", [0, -1])]),
    ],
    [
      "Reshape to a shape made of the input's",
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
  ])("behind %s loses the rows of a channel", async (_, original) => {
    const { after } = await pruned(original, { ratio: new Map([["make_c", 0.5]]) });
    expect(constantsOf(after)["m"]).toEqual({ dims: [4, 2], data: rows });
  });

  it("loses units as a convolution does, with the rows of the next", async () => {
    const { after } = await pruned(dense([node("Flatten c -> f")]), {
      ratio: new Map([["make_h", 0.5]]),
    });
    expect(constantsOf(after)).toMatchObject({
      m: { dims: [8, 1], data: [1, 3, 5, 7, 9, 11, 13, 15] },
      k: { dims: [1, 3], data: [4, 5, 6] },
    });
  });

  it("does not share a shape with another that is pruned otherwise", async () => {
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
    const { after } = await pruned(shared, { ratio: new Map([["make_c", 0.5]]) });
    expect(dimsOf(after)).toMatchObject({ m: [16, 16], m2: [32, 16] });
    expect(constantsOf(after)["s"]?.data).toEqual([-1, 32]);
    expect(after.graph.node[1]?.input[1]).toBe("make_f_sizes");
  });
});

describe("sizes that cannot be rewritten", () => {
  /** Two flattened convolutions, by a shape that is made of the first one's. */
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
  const reasonsOf = async (original: Model) =>
    Object.fromEntries(
      findChannelGroups(traceChannels(original, await measureModelShapes(original))).unprunable.map(
        ({ layer, reason }) => [layer, reason],
      ),
    );
  const batch = node("Gather all zero -> n");

  it.each<readonly [string, Model, Readonly<Record<string, string>>]>([
    [
      "one vector of them for two Reshapes",
      flattened([batch, concat("n", "rest")], "s"),
      {
        make_c: "Reshape make_f has their number in its sizes",
        make_d: "Reshape make_g has their number in its sizes",
      },
    ],
    [
      "a part that another node reads",
      flattened(
        [batch, concat("n", "rest"), node("Concat n rest -> t", [makeIntAttribute("axis", 0)])],
        "t",
      ),
      {
        make_c: "Reshape make_f has their number in its sizes",
        make_d: "Reshape make_g has their number in its sizes",
      },
    ],
    [
      "what is calculated of their number",
      flattened(
        [batch, node("Gather all one -> k"), node("Mul k four -> k4"), concat("n", "k4")],
        "flat",
      ),
      { make_c: "Mul make_k4 calculates with their number" },
    ],
    [
      "another tensor's number",
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
        make_c: "Mul make_k4 calculates with their number",
        make_d: "Reshape make_g has their number in its sizes",
      },
    ],
  ])("keep their channels: %s", async (_, original, expected) => {
    expect(await reasonsOf(original)).toMatchObject(expected);
  });
});

describe("attention", () => {
  it("loses the same places in each head, of queries and keys, and of values", async () => {
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
        Array.from({ length: 32 }, (_, at) => ((at % 8) % 4) + 1),
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
          Array.from({ length: 32 }, (_, at) => at),
          [8, 4],
        ),
        int64Tensor("cut", [0, 0, 2, 4]),
        int64Tensor("whole", [0, 0, 8]),
      ],
    });
    const { after, groups } = await pruned(attention);
    expect(groups.map(({ layers, channels, removed }) => [layers, channels, removed])).toEqual([
      [["make_q1", "make_k1"], 8, 4],
      [["make_v1"], 8, 4],
    ]);
    expect(constantsOf(after)).toMatchObject({
      q: { dims: [4, 4], data: [3, 4, 3, 4, 3, 4, 3, 4, 3, 4, 3, 4, 3, 4, 3, 4] },
      o: { dims: [4, 4], data: [8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31] },
    });
    expect(findAttribute(after.graph.node[1] ?? node("A b -> c"), "allowzero")).toBeUndefined();
  });
});

describe("what is left alone", () => {
  const left = async (middle: readonly NodeProto[], constants: readonly TensorProto[] = []) => {
    const { unprunable: leftAlone } = await pruned(
      net({
        nodes: [node("Conv x w -> c"), ...middle, node("Conv m v -> d"), node("Conv d u -> y")],
        constants: [
          filters("w", [1, 2], 2),
          filters("v", [1, 2], 2),
          filters("u", [1], 2),
          ...constants,
        ],
      }),
    );
    return leftAlone.find(({ layer }) => layer === "make_c")?.reason;
  };

  it.each<readonly [string, readonly NodeProto[], readonly TensorProto[], string]>([
    [
      "what an operator without a rule reads",
      [node("CumSum c axis -> m")],
      [int64Tensor("axis", [1], [])],
      "what CumSum make_m does to them is not known",
    ],
    [
      "what neighbours are weighed against",
      [node("LRN c -> m", [makeIntAttribute("size", 3)])],
      [],
      "LRN make_m works across them",
    ],
    [
      "what is turned round",
      [node("Slice c last first axes back -> m")],
      [
        int64Tensor("last", [-1]),
        int64Tensor("first", [-9]),
        int64Tensor("axes", [1]),
        int64Tensor("back", [-1]),
      ],
      "what Slice make_m does to them is not known",
    ],
    [
      "what is counted by MaxPool's indices",
      [node("MaxPool c -> m indices", [intListAttribute("kernel_shape", [1, 1])])],
      [],
      "what MaxPool make_m does to them is not known",
    ],
    [
      "what is normalised across channels",
      [node("Softmax c -> m", [makeIntAttribute("axis", 1)])],
      [],
      "Softmax make_m works across them",
    ],
    [
      "what is averaged over channels",
      [node("ReduceMean c axes -> mean"), node("Sub c mean -> m")],
      [int64Tensor("axes", [1])],
      "ReduceMean make_mean works across them",
    ],
    [
      "what is picked from",
      [node("Gather c at -> m", [makeIntAttribute("axis", 1)])],
      [int64Tensor("at", [1, 0])],
      "Gather make_m picks among them",
    ],
    [
      "what is cut otherwise",
      [
        node("Slice c from to axes -> half"),
        node("Concat half half -> m", [makeIntAttribute("axis", 1)]),
      ],
      [int64Tensor("from", [0]), int64Tensor("to", [1]), int64Tensor("axes", [1])],
      "Slice make_half changes their number",
    ],
    [
      "what a body reads",
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
      "the body of a node reads c",
    ],
  ])("%s", async (_, nodes, constants, reason) => {
    expect(await left(nodes, constants)).toBe(reason);
  });

  it("is all of a graph of operators before version 7, which broadcast otherwise", async () => {
    const old = net({
      opset: 6,
      nodes: [node("Conv x w -> c"), node("Conv c v -> y")],
      constants: [filters("w", [1, 2], 2), filters("v", [1], 2)],
    });
    await expect(pruned(old)).rejects.toMatchObject({
      code: "nothing_to_prune",
      detail: expect.stringContaining("version 6 of ONNX's operators"),
    });
  });

  it("is all of a graph that was quantised, which is refused", async () => {
    const quantised = net({
      nodes: [node("DequantizeLinear q scale -> w"), node("Conv x w -> c"), node("Conv c v -> y")],
      constants: [
        int8Tensor("q", [1, 2, 3, 4], [2, 2, 1, 1]),
        floatTensor("scale", [1], []),
        filters("v", [1, 2], 2),
      ],
    });
    await expect(pruned(quantised)).rejects.toMatchObject({
      code: "nothing_to_prune",
      detail: expect.stringContaining("make_y: they are in the graph's output y"),
    });
  });
});

it.each([
  [{ ratio: 1 }, "The ratio 1 is not from 0 to below 1."],
  [{ ratio: -0.1 }, "The ratio -0.1 is not from 0 to below 1."],
  [{ ratio: Number.NaN }, "The ratio NaN is not from 0 to below 1."],
  [{ ratio: 1, scope: "model" as const }, "The ratio 1 is not from 0 to below 1."],
  [{ ratio: new Map([["nobody", 0.5]]) }, 'There is nothing to prune that is called "nobody".'],
  [{ ratio: 0.5, multiple: 0 }, "The multiple 0 is not a whole number from 1 on."],
])("%j is refused", async (options, detail) => {
  const chain = net({
    nodes: [node("Conv x w -> c"), node("Conv c v -> y")],
    constants: [filters("w", [1, 2], 2), filters("v", [1], 2)],
  });
  await expect(pruned(chain, options)).rejects.toMatchObject({ code: "invalid_pruning", detail });
});
