// Tests each pass on graphs of a few nodes: the remaining nodes, and unchanged outputs.
// One file covers all passes, because they share the harness that compares outputs; it exceeds 300
// lines.
import { describe, expect, it } from "vitest";
import { createNativeRuntime } from "../../../src/runtime/native/native-runtime.ts";
import { readFloatConstant } from "../../../src/toolchain/onnx/constants.ts";
import { freezeInitializers } from "../../../src/toolchain/onnx/initializers.ts";
import { type Model, parseModel, serializeModel } from "../../../src/toolchain/onnx/model-file.ts";
import { makeIntAttribute, makeTensorAttribute } from "../../../src/toolchain/onnx/nodes.ts";
import type { GraphProto } from "../../../src/toolchain/onnx/proto/onnx_pb.js";
import { buildValueTable } from "../../../src/toolchain/onnx/value-table.ts";
import { dedupeInitializers } from "../../../src/toolchain/passes/dedupe-initializers.ts";
import { foldBatchNorm } from "../../../src/toolchain/passes/fold-batch-norm.ts";
import { foldConstants } from "../../../src/toolchain/passes/fold-constants.ts";
import { mergeBias } from "../../../src/toolchain/passes/merge-bias.ts";
import { removeIdentity } from "../../../src/toolchain/passes/remove-identity.ts";
import { removeUnused } from "../../../src/toolchain/passes/remove-unused.ts";
import { verifyOutputs } from "../../../src/toolchain/passes/verify-outputs.ts";
import { seededRandom } from "../../../src/toolchain/seeded-random.ts";
import {
  subgraphAttribute,
  floatAttribute,
  floatTensor,
  graph,
  makeValueInfo,
  int64Tensor,
  int8Tensor,
  intListAttribute,
  model,
  node,
  type ModelSpec,
} from "../onnx/model-builders.ts";

const runtime = createNativeRuntime({ intraOpThreads: 1 });
const describeNodes = ({ node }: GraphProto) =>
  node.map(({ opType, input, output }) => `${opType} ${input.join(" ")} -> ${output.join(" ")}`);
const namesOf = (list: readonly { readonly name: string }[]) => list.map(({ name }) => name);
function readConstant(model: Model, name: string): number[] | undefined {
  const numbers = readFloatConstant(
    buildValueTable(model).values.find((value) => value.name === name),
  );
  return numbers && [...numbers];
}

/** Runs a pass on the graph, and verifies the outputs against the original on generated inputs. */
async function runPass(parts: ModelSpec, pass: (model: Model) => number | Promise<number>) {
  const before = serializeModel(model(parts));
  const changed = parseModel(before);
  const changes = await pass(changed);
  expect(
    (await verifyOutputs(runtime, before, serializeModel(changed), { tolerance: 1e-5 })).problems,
  ).toEqual([]);
  return { changed, changes, nodes: describeNodes(changed.graph) };
}

const random = seededRandom(3);
const numbers = (name: string, ...dims: number[]) =>
  floatTensor(
    name,
    Array.from({ length: dims.reduce((product, size) => product * size, 1) }, () => random() - 0.5),
    dims,
  );
const branches = (thenBody: GraphProto, elseBody: GraphProto) => [
  subgraphAttribute("then_branch", thenBody),
  subgraphAttribute("else_branch", elseBody),
];

describe("remove-unused", () => {
  it("removes nodes, constants and declarations that no output needs, in bodies too", async () => {
    const inner = (name: string) =>
      graph({
        outputs: [name],
        nodes: [node(`Add h b -> ${name}`), node("Exp h -> unread")],
        constants: [floatTensor("spare", [1])],
        valueInfo: ["unread: float [1]"],
      });
    const { changed, changes, nodes } = await runPass(
      {
        inputs: ["x: float [1]", "c: bool []", "extra: float [1]"],
        outputs: ["y: float [1]"],
        constants: [floatTensor("b", [2]), floatTensor("w", [1])],
        nodes: [
          node("Relu x -> h"),
          node("Mul x w -> dead"),
          node("Neg dead -> deader"),
          node("If c -> y", branches(inner("s"), inner("t"))),
        ],
        valueInfo: ["dead: float [1]", "h: float [1]"],
      },
      removeUnused,
    );
    expect({
      changes,
      nodes,
      initializers: namesOf(changed.graph.initializer),
      valueInfo: namesOf(changed.graph.valueInfo),
    }).toEqual({
      changes: 7,
      nodes: ["Relu x -> h", "If c -> y"],
      initializers: ["b"],
      valueInfo: ["h"],
    });
    // Callers may pass the unused input, so it remains.
    expect(namesOf(changed.graph.input)).toEqual(["x", "c", "extra"]);
    const bodySizes = changed.graph.node[1]?.attribute.map(({ g }) => ({
      nodes: g?.node.length,
      initializers: g?.initializer.length,
      valueInfo: g?.valueInfo.length,
    }));
    const reduced = { nodes: 1, initializers: 0, valueInfo: 0 };
    expect(bodySizes).toEqual([reduced, reduced]);
  });
});

describe("remove-unused", () => {
  it("removes an unread node with a body, and the values that only the body reads", async () => {
    const inner = graph({ outputs: ["s"], nodes: [node("Identity h -> s")] });
    const { nodes } = await runPass(
      {
        inputs: ["x: float [1]", "c: bool []"],
        outputs: ["y: float [1]"],
        nodes: [
          node("Relu x -> h"),
          node("If c -> unread", branches(inner, inner)),
          node("Neg x -> y"),
        ],
      },
      removeUnused,
    );
    expect(nodes).toEqual(["Neg x -> y"]);
  });
});

const vectorInput = ["x: float [N, 2]"];

describe("remove-identity", () => {
  it("removes chains and keeps the names of outputs", async () => {
    const { changes, nodes } = await runPass(
      {
        inputs: vectorInput,
        outputs: ["y: float [N, 2]"],
        nodes: [
          node("Relu x -> a"),
          node("Identity a -> b"),
          node("Dropout b -> c mask"),
          node("Identity c -> y"),
          node("Neg b -> unread"),
        ],
      },
      removeIdentity,
    );
    expect({ changes, nodes }).toEqual({
      changes: 3,
      nodes: ["Relu x -> y", "Neg y -> unread"],
    });
  });

  it("keeps an Identity of an input, of a constant, and of a value with two outputs", async () => {
    const { nodes } = await runPass(
      {
        inputs: vectorInput,
        outputs: ["p: float [N, 2]", "k: float [2]", "r: float [N, 2]", "s: float [N, 2]"],
        constants: [floatTensor("c", [1, 2])],
        nodes: [
          node("Identity x -> p"),
          node("Identity c -> k"),
          node("Relu p -> r"),
          node("Identity r -> s"),
        ],
      },
      removeIdentity,
    );
    expect(nodes).toEqual(["Identity x -> p", "Identity c -> k", "Relu x -> r", "Identity r -> s"]);
  });
});

describe("remove-identity", () => {
  it("keeps Dropout if its mask is read or it trains", async () => {
    const masked = await runPass(
      {
        inputs: vectorInput,
        outputs: ["y: float [N, 2]", "m: bool [N, 2]"],
        nodes: [node("Dropout x -> y m")],
      },
      removeIdentity,
    );
    expect(masked.changes).toBe(0);
    const training = model({
      inputs: [...vectorInput, "t: bool []"],
      outputs: ["y: float [N, 2]"],
      nodes: [node("Dropout x _ t -> a"), node("Relu a -> y")],
    });
    expect(removeIdentity(training)).toBe(0);
    const oldDropout = (is_test: number) =>
      model({
        opset: 6,
        inputs: vectorInput,
        outputs: ["y: float [N, 2]"],
        nodes: [
          node("Dropout x -> a", [makeIntAttribute("is_test", is_test)]),
          node("Relu a -> y"),
        ],
      });
    expect({
      training: removeIdentity(oldDropout(0)),
      inference: removeIdentity(oldDropout(1)),
    }).toEqual({ training: 0, inference: 1 });
  });
});

describe("remove-identity", () => {
  it("redirects reads in bodies, unless the name is ambiguous", async () => {
    const parts = (inner: string): ModelSpec => ({
      inputs: ["x: float [2]", "c: bool []"],
      outputs: ["y: float [2]"],
      nodes: [
        node("Relu x -> a"),
        node("Identity a -> b"),
        node(
          "If c -> y",
          branches(
            graph({
              outputs: ["s"],
              nodes: [node(`Neg b -> ${inner}`), node(`Add b ${inner} -> s`)],
            }),
            graph({ outputs: ["t"], nodes: [node("Identity b -> t")] }),
          ),
        ),
      ],
    });
    const { nodes, changed } = await runPass(parts("other"), removeIdentity);
    expect(nodes).toEqual(["Relu x -> a", "If c -> y"]);
    expect(changed.graph.node[1]?.attribute.map(({ g }) => g && describeNodes(g))).toEqual([
      ["Neg a -> other", "Add a other -> s"],
      ["Identity a -> t"],
    ]);
    const shadowed = model(parts("a"));
    expect(removeIdentity(shadowed)).toBe(0);
  });
});

const fold = (model: Model) => foldConstants(model, { runtime });

describe("fold-constants", () => {
  it("folds values that depend on no input, over several steps and in bodies", async () => {
    const inner = graph({
      outputs: ["s"],
      nodes: [node("Mul two half -> one"), node("Add x one -> s")],
      constants: [floatTensor("half", [0.5])],
    });
    const { changes, nodes, changed } = await runPass(
      {
        inputs: ["x: float [3]", "c: bool []"],
        outputs: ["y: float [3]"],
        constants: [floatTensor("k", [1, 2, 3])],
        nodes: [
          node("Constant -> two", [floatAttribute("value_float", 2)]),
          node("Mul k two -> doubled"),
          node("Shape k -> size"),
          node("Constant -> seven", [makeTensorAttribute("value", int64Tensor("", [7]))]),
          node("Add size seven -> ten"),
          node("Cast ten -> tens", [makeIntAttribute("to", 1)]),
          node("If c -> p", branches(inner, inner)),
          node("Add p doubled -> q"),
          node("Add q tens -> y"),
        ],
      },
      fold,
    );
    expect({
      changes,
      nodes,
      doubled: readConstant(changed, "doubled"),
      tens: readConstant(changed, "tens"),
    }).toEqual({
      changes: 8,
      nodes: ["If c -> p", "Add p doubled -> q", "Add q tens -> y"],
      doubled: [2, 4, 6],
      tens: [10],
    });
    expect(changed.graph.node[0]?.attribute.map(({ g }) => g && describeNodes(g))).toEqual([
      ["Add x one -> s"],
      ["Add x one -> s"],
    ]);
  });

  it("keeps computing a constant output, so that the graph still has nodes", async () => {
    const { nodes } = await runPass(
      {
        inputs: ["x: float [1]"],
        outputs: ["y: float [1]", "k: float [1]"],
        constants: [floatTensor("c", [4])],
        nodes: [node("Sqrt c -> k"), node("Add x k -> y")],
      },
      fold,
    );
    expect(nodes).toEqual(["Sqrt c -> k", "Add x k -> y"]);
  });
});

describe("fold-constants", () => {
  it("does not store results much larger than their sources, and does not compute huge ones", async () => {
    const parts = (...size: number[]): ModelSpec => ({
      inputs: ["x: float [1]"],
      outputs: ["y: float [1]"],
      constants: [int64Tensor("size", size)],
      nodes: [
        node("ConstantOfShape size -> zeros"),
        node("ReduceSum zeros -> sum", [makeIntAttribute("keepdims", 0)]),
        node("Add x sum -> y"),
      ],
    });
    // The sum is small, although the summands are not.
    expect((await runPass(parts(100, 100), fold)).nodes).toEqual(["Add x sum -> y"]);
    const growing = (rows: number): ModelSpec => ({
      inputs: ["x: float [1]"],
      outputs: ["y: float [1, 100]"],
      constants: [int64Tensor("size", [rows, 100])],
      nodes: [
        node("ConstantOfShape size -> zeros"),
        node("Add x zeros -> sum"),
        node("ReduceMax sum -> y", [intListAttribute("axes", [0])]),
      ],
      opset: 17,
    });
    expect((await runPass(growing(1_000), fold)).changes).toBe(0);
    expect((await runPass(growing(100), fold)).changes).toBe(1);
    const huge = model(parts(2 ** 20, 2 ** 20));
    expect(await fold(huge)).toBe(0);
  });

  it("keeps a computation from a weight with other readers, because a copy would add bytes", async () => {
    const parts = (...more: ReturnType<typeof node>[]): ModelSpec => ({
      inputs: ["x: float [1, 200]"],
      outputs: ["y: float [1, 200]"],
      constants: [numbers("w", 200, 200)],
      nodes: [node("Transpose w -> turned"), node("MatMul x turned -> h"), ...more],
      opset: 17,
    });
    expect((await runPass(parts(node("Relu h -> y")), fold)).changes).toBe(1);
    expect((await runPass(parts(node("MatMul h w -> y")), fold)).changes).toBe(0);
  });
});

describe("fold-constants", () => {
  it("keeps random numbers, 8-bit weights, and nodes that the runtime cannot compute", async () => {
    const nodes = [
      node("DequantizeLinear q scale -> w"),
      node("RandomUniform -> r", [intListAttribute("shape", [1])]),
      node("Mul r zero -> nothing"),
      node("NoSuchOperator zero -> n", [], "com.example"),
      node("Add x w -> h"),
      node("Add h nothing -> g"),
      node("Add g n -> y"),
    ];
    const changed = model({
      inputs: ["x: float [2]"],
      outputs: ["y: float [2]"],
      constants: [
        int8Tensor("q", [1, 2]),
        floatTensor("scale", [0.5], []),
        floatTensor("zero", [0]),
      ],
      domains: ["com.example"],
      nodes,
    });
    expect(await fold(changed)).toBe(0);
  });

  it("continues if one of many nodes fails", async () => {
    const changed = model({
      inputs: ["x: float [2]"],
      outputs: ["y: float [2]"],
      constants: [floatTensor("a", [1, 2]), floatTensor("b", [1, 2, 3])],
      nodes: [
        node("Add a b -> wrong"),
        node("Add a a -> right"),
        node("Add x right -> h"),
        node("Add h wrong -> y"),
      ],
    });
    expect(await fold(changed)).toBe(1);
    expect(readConstant(changed, "right")).toEqual([2, 4]);
  });
});

const normParameters = (channels: number) => [
  numbers("scale", channels),
  numbers("shift", channels),
  numbers("mean", channels),
  floatTensor(
    "variance",
    Array.from({ length: channels }, (_, index) => 0.5 + index),
  ),
];
const norm = "BatchNormalization h scale shift mean variance -> y";
const normInputs = ["x: float [N, 4, 5, 5]"];

describe("fold-batch-norm", () => {
  it.each([
    ["Conv with a bias", "Conv x w b -> h", [numbers("w", 6, 4, 3, 3), numbers("b", 6)], 6],
    [
      "Conv in groups, without a bias",
      "Conv x w -> h",
      [numbers("w", 6, 2, 3, 3)],
      6,
      [makeIntAttribute("group", 2)],
    ],
    [
      "a depthwise Conv",
      "Conv x w -> h",
      [numbers("w", 4, 1, 3, 3)],
      4,
      [makeIntAttribute("group", 4)],
    ],
    ["ConvTranspose", "ConvTranspose x w b -> h", [numbers("w", 4, 3, 2, 2), numbers("b", 3)], 3],
    [
      "ConvTranspose in groups",
      "ConvTranspose x w -> h",
      [numbers("w", 4, 3, 2, 2)],
      6,
      [makeIntAttribute("group", 2)],
    ],
  ])(
    "folds into %s",
    async (
      _,
      layer,
      constants,
      channels,
      attributes: ReturnType<typeof makeIntAttribute>[] = [],
    ) => {
      const { changes, changed } = await runPass(
        {
          inputs: normInputs,
          outputs: [`y: float [N, ${channels}, H, W]`],
          constants: [...constants, ...normParameters(channels)],
          nodes: [node(layer, attributes), node(norm, [floatAttribute("epsilon", 0.01)])],
        },
        foldBatchNorm,
      );
      expect({
        changes,
        layers: changed.graph.node.map(({ opType, output }) => ({ opType, output })),
      }).toEqual({ changes: 1, layers: [{ opType: layer.split(" ")[0], output: ["y"] }] });
    },
  );
});

describe("fold-batch-norm", () => {
  it.each([
    [
      "a row of biases",
      "Gemm x w b -> h",
      [numbers("w", 4, 6), numbers("b", 1, 6)],
      [floatAttribute("beta", 0.5), floatAttribute("alpha", 2)],
    ],
    [
      "one bias, transposed weights",
      "Gemm x w b -> h",
      [numbers("w", 6, 4), numbers("b")],
      [makeIntAttribute("transB", 1)],
    ],
    ["no bias", "Gemm x w -> h", [numbers("w", 4, 6)], []],
  ])("folds into Gemm with %s", async (_, layer, constants, attributes) => {
    const { nodes } = await runPass(
      {
        inputs: ["x: float [N, 4]"],
        outputs: ["y: float [N, 6]"],
        constants: [...constants, ...normParameters(6)],
        nodes: [node(layer, attributes), node(norm)],
      },
      foldBatchNorm,
    );
    expect(nodes).toEqual(["Gemm x h_weights h_bias -> y"]);
  });
});

describe("fold-batch-norm", () => {
  it("gives layers with shared weights separate weights", async () => {
    const { changes } = await runPass(
      {
        inputs: normInputs,
        outputs: ["y: float [N, 4, 5, 5]", "z: float [N, 4, 5, 5]"],
        constants: [numbers("w", 4, 4, 1, 1), ...normParameters(4)],
        nodes: [node("Conv x w -> h"), node(norm), node("Conv x w -> z")],
      },
      foldBatchNorm,
    );
    expect(changes).toBe(1);
  });
});

describe("fold-batch-norm", () => {
  it("keeps nodes whose layer has other readers, that train, or whose weights are not constant", () => {
    const parts = (nodes: ModelSpec["nodes"], more: Partial<ModelSpec> = {}) =>
      model({
        inputs: [...normInputs, "v: float [4, 4, 1, 1]"],
        outputs: ["y"],
        constants: [numbers("w", 4, 4, 1, 1), ...normParameters(4)],
        nodes,
        ...more,
      });
    expect(foldBatchNorm(parts([node("Conv x w -> h"), node(norm), node("Relu h -> other")]))).toBe(
      0,
    );
    expect(foldBatchNorm(parts([node("Conv x w -> h"), node(norm)], { outputs: ["y", "h"] }))).toBe(
      0,
    );
    expect(
      foldBatchNorm(
        parts([node("Conv x w -> h"), node(norm, [makeIntAttribute("training_mode", 1)])]),
      ),
    ).toBe(0);
    expect(foldBatchNorm(parts([node("Conv x v -> h"), node(norm)]))).toBe(0);
    expect(foldBatchNorm(parts([node("Relu x -> h"), node(norm)]))).toBe(0);
    expect(foldBatchNorm(parts([node("Conv x w -> h"), node(norm)], { opset: 6 }))).toBe(0);
  });
});

const biasInputs = ["x: float [N, 3, 5, 5]"];
const convSpec = (constants: ModelSpec["constants"], nodes: ModelSpec["nodes"]) => ({
  inputs: biasInputs,
  outputs: ["y: float [N, 4, H, W]"],
  constants: [numbers("w", 4, 3, 3, 3), ...(constants ?? [])],
  nodes,
});

describe("merge-bias", () => {
  it.each([
    ["[4, 1, 1]", [numbers("c", 4, 1, 1)]],
    ["[1, 4, 1, 1]", [numbers("c", 1, 4, 1, 1)]],
    ["a scalar", [numbers("c")]],
  ])("merges %s into Conv, on either side of Add", async (_, constants) => {
    for (const add of ["Add h c -> y", "Add c h -> y"]) {
      const { nodes } = await runPass(
        convSpec([...constants, numbers("b", 4)], [node("Conv x w b -> h"), node(add)]),
        mergeBias,
      );
      expect(nodes).toEqual(["Conv x w h_bias -> y"]);
    }
  });
});

describe("merge-bias", () => {
  it("keeps summands that vary by column, or have more dimensions than the layer", async () => {
    expect(
      (
        await runPass(
          convSpec([numbers("c", 3)], [node("Conv x w -> h"), node("Add h c -> y")]),
          mergeBias,
        )
      ).changes,
    ).toBe(0);
    expect(
      (
        await runPass(
          {
            ...convSpec(
              [numbers("c", 1, 1, 4, 1, 1)],
              [node("Conv x w -> h"), node("Add h c -> y")],
            ),
            outputs: ["y: float [1, N, 4, H, W]"],
          },
          mergeBias,
        )
      ).changes,
    ).toBe(0);
    expect(
      (
        await runPass(
          {
            inputs: ["x: float [2, 3]"],
            outputs: ["y: float [2, 4]"],
            constants: [numbers("w", 3, 4), numbers("c", 2, 4)],
            nodes: [node("Gemm x w -> h"), node("Add h c -> y")],
          },
          mergeBias,
        )
      ).changes,
    ).toBe(0);
    expect(
      (
        await runPass(
          {
            inputs: ["x: float [2, 3]"],
            outputs: ["y: float [2, 4]"],
            constants: [numbers("w", 3, 4)],
            nodes: [node("Gemm x w -> h"), node("Add h h -> y")],
          },
          mergeBias,
        )
      ).changes,
    ).toBe(0);
  });
});

describe("merge-bias", () => {
  it("turns a two-dimensional MatMul into Gemm", async () => {
    const flat = await runPass(
      {
        inputs: biasInputs,
        outputs: ["y: float [N, 4]"],
        constants: [numbers("w", 75, 4), numbers("c", 4)],
        nodes: [node("Flatten x -> f"), node("MatMul f w -> h"), node("Add c h -> y")],
      },
      mergeBias,
    );
    expect(flat.nodes).toEqual(["Flatten x -> f", "Gemm f w h_bias -> y"]);
    const long = await runPass(
      {
        inputs: ["x: float [N, 3, 5]"],
        outputs: ["y: float [N, 3, 4]"],
        constants: [numbers("w", 5, 4), numbers("c", 4)],
        nodes: [node("MatMul x w -> h"), node("Add h c -> y")],
      },
      mergeBias,
    );
    expect(long.changes).toBe(0);
  });

  it("includes beta in Gemm's existing bias", async () => {
    const { nodes, changed } = await runPass(
      {
        inputs: ["x: float [N, 1]"],
        outputs: ["y: float [N, 2]"],
        constants: [
          floatTensor("w", [1, 1], [1, 2]),
          floatTensor("b", [2, 4]),
          floatTensor("c", [10, 20]),
        ],
        nodes: [node("Gemm x w b -> h", [floatAttribute("beta", 0.5)]), node("Add h c -> y")],
      },
      mergeBias,
    );
    expect({ nodes, bias: readConstant(changed, "h_bias") }).toEqual({
      nodes: ["Gemm x w h_bias -> y"],
      bias: [11, 22],
    });
  });
});

describe("dedupe-initializers", () => {
  it("merges equal constants, but not equal numbers in other shapes or types", async () => {
    const { changes, nodes, changed } = await runPass(
      {
        inputs: ["x: float [2]"],
        outputs: ["y: float [2]"],
        constants: [
          floatTensor("a", [1, 2]),
          floatTensor("b", [1, 2]),
          floatTensor("c", [1, 2], [1, 2]),
          floatTensor("d", [1, 2, 3]),
        ],
        nodes: [
          node("Add x a -> h"),
          node("Mul h b -> g"),
          node("Squeeze c -> s"),
          node("Sub g s -> y"),
        ],
      },
      dedupeInitializers,
    );
    expect({
      changes,
      reader: nodes[1],
      initializers: namesOf(changed.graph.initializer),
    }).toEqual({ changes: 1, reader: "Mul h a -> g", initializers: ["a", "c", "d"] });
  });

  it("keeps outputs, and defaults of inputs", () => {
    const changed = model({
      inputs: ["x: float [1]", "a: float [1]"],
      outputs: ["y", "b"],
      constants: [floatTensor("a", [1]), floatTensor("b", [1]), floatTensor("c", [1])],
      nodes: [node("Sum x a b c -> y")],
    });
    expect(dedupeInitializers(changed)).toBe(1);
    expect(namesOf(changed.graph.initializer)).toEqual(["a", "b"]);
  });
});

it("freeze-defaults turns weights that are listed as inputs into constants, and raises the format's version if necessary", () => {
  const changed = model({
    irVersion: 3,
    inputs: ["x: float [1]", "w: float [1]"],
    outputs: ["y"],
    constants: [floatTensor("w", [1])],
    nodes: [node("Add x w -> y")],
  });
  changed.graph.input.push(makeValueInfo("v: float [1]"));
  expect({
    count: freezeInitializers(changed),
    inputs: namesOf(changed.graph.input),
    irVersion: changed.irVersion,
  }).toEqual({ count: 1, inputs: ["x", "v"], irVersion: 4n });
});
