// Tests the conversion to FP16: the resulting graphs, and that ONNX Runtime runs them with similar
// outputs. One file holds all cases, because they share the harness that compares models; it
// exceeds 300 lines.
import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { createNativeRuntime } from "../../../src/runtime/native/native-runtime.ts";
import { compareModels } from "../../../src/toolchain/fp16/compare-models.ts";
import {
  convertToFp16,
  type Fp16Options,
  type Fp16Report,
} from "../../../src/toolchain/fp16/convert-to-fp16.ts";
import { traverseGraphs } from "../../../src/toolchain/onnx/graph-traversal.ts";
import { type Model, parseModel, serializeModel } from "../../../src/toolchain/onnx/model-file.ts";
import { makeIntAttribute, makeTensorAttribute } from "../../../src/toolchain/onnx/nodes.ts";
import {
  AttributeProto_AttributeType,
  AttributeProtoSchema,
  type GraphProto,
} from "../../../src/toolchain/onnx/proto/onnx_pb.js";
import { elementTypeOf } from "../../../src/toolchain/onnx/tensor-data.ts";
import { valueTypeOf } from "../../../src/toolchain/onnx/type-inference.ts";
import { buildValueTable } from "../../../src/toolchain/onnx/value-table.ts";
import {
  subgraphAttribute,
  floatAttribute,
  floatTensor,
  graph,
  int64Tensor,
  int8Tensor,
  model,
  node,
} from "../onnx/model-builders.ts";
import { findRedundantCasts } from "./redundant-casts.ts";

const runtime = createNativeRuntime({ intraOpThreads: 1 });

interface Converted {
  readonly model: Model;
  readonly report: Fp16Report;
  readonly bytes: Uint8Array;
}

function convert(original: Model, options?: Fp16Options): Converted {
  const changed = parseModel(serializeModel(original));
  const report = convertToFp16(changed, options);
  return { model: changed, report, bytes: serializeModel(changed) };
}

/** Runs both graphs in ONNX Runtime, and returns the largest difference of any output. */
async function measureDifference(original: Model, options?: Fp16Options): Promise<number> {
  const { outputs } = await compareModels(
    runtime,
    serializeModel(original),
    convert(original, options).bytes,
  );
  return Math.max(...outputs.map(({ maxAbsolute, lost }) => (lost > 0 ? Infinity : maxAbsolute)));
}

const opsOf = ({ node }: GraphProto) =>
  node.map(
    (current) => `${current.opType} ${current.input.join(" ")} -> ${current.output.join(" ")}`,
  );
const constantsOf = ({ initializer }: GraphProto) =>
  Object.fromEntries(initializer.map(({ name, dataType }) => [name, elementTypeOf(dataType)]));
const typesOf = (infos: GraphProto["input"]) =>
  Object.fromEntries(infos.map(({ name, type }) => [name, valueTypeOf(type)]));
const fp32OpsOf = ({ kept }: Fp16Report) => kept.map(({ op }) => op);

const denseModel = () =>
  model({
    inputs: ["x: float [N, 3]"],
    outputs: ["y: float [N, 2]"],
    constants: [
      floatTensor("w", [0.5, -1, 2, 0.25, 1, -0.125], [3, 2]),
      floatTensor("b", [0.1, 0.2]),
    ],
    nodes: [node("MatMul x w -> h"), node("Add h b -> s"), node("Softmax s -> y")],
    valueInfo: ["h: float [N, 2]", "s: float [N, 2]"],
  });

describe("a graph of plain operators", () => {
  it("computes in FP16, with casts at inputs and outputs", async () => {
    const converted = convert(denseModel());
    const { model, report } = converted;
    expect(opsOf(model.graph)).toEqual([
      "Cast x -> x_fp16",
      "MatMul x_fp16 w -> h",
      "Add h b -> s",
      "Softmax s -> y_fp16",
      "Cast y_fp16 -> y",
    ]);
    expect(constantsOf(model.graph)).toEqual({ w: "float16", b: "float16" });
    expect({
      ...typesOf(model.graph.input),
      ...typesOf(model.graph.valueInfo),
      ...typesOf(model.graph.output),
    }).toEqual({ x: "float", h: "float16", s: "float16", y: "float" });
    expect(report).toEqual({ kept: [], casts: 2, rounded: [] });
    expect(findRedundantCasts(converted.model)).toEqual([]);
    expect(await measureDifference(denseModel())).toBeLessThan(0.002);
  });

  it("has FP16 inputs and outputs on request", async () => {
    const { model, report } = convert(denseModel(), { io: "fp16" });
    expect({
      input: typesOf(model.graph.input),
      output: typesOf(model.graph.output),
      casts: report.casts,
    }).toEqual({ input: { x: "float16" }, output: { y: "float16" }, casts: 0 });
    expect(await measureDifference(denseModel(), { io: "fp16" })).toBeLessThan(0.002);
  });

  it("is converted deterministically and idempotently", () => {
    const converted = convert(denseModel());
    expect(Buffer.from(converted.bytes).equals(convert(denseModel()).bytes)).toBe(true);
    expect(Buffer.from(convert(converted.model).bytes).equals(converted.bytes)).toBe(true);
  });

  it("reports the numbers that FP16 cannot represent", () => {
    const original = model({
      inputs: ["x: float [2]"],
      outputs: ["y: float [2]"],
      constants: [floatTensor("mask", [-1e9, 1]), floatTensor("epsilon", [1e-12])],
      nodes: [node("Add x mask -> h"), node("Add h epsilon -> y")],
    });
    expect(convert(original).report.rounded).toEqual([
      { name: "mask", clamped: 1, raised: 0 },
      { name: "epsilon", clamped: 0, raised: 1 },
    ]);
  });

  it("remains unchanged without FP32 values", () => {
    const original = model({
      inputs: ["x: int64 [2]", "d: double [1]"],
      outputs: ["y: int64 [2]", "e: double [1]"],
      constants: [int64Tensor("one", [1])],
      nodes: [node("Add x one -> y"), node("Exp d -> e")],
    });
    const before = serializeModel(original);
    expect(Buffer.from(convert(original).bytes).equals(before)).toBe(true);
  });
});

describe("nodes that stay in FP32", () => {
  it("include those of `keep`, by operator or name, without casts in between", async () => {
    const kept = convert(denseModel(), { keep: ["make_s", "Softmax"] });
    expect(opsOf(kept.model.graph)).toEqual([
      "Cast x -> x_fp16",
      "MatMul x_fp16 w -> h",
      "Cast h -> h_fp32",
      "Add h_fp32 b -> s",
      "Softmax s -> y",
    ]);
    expect(kept.report.kept).toEqual([
      { node: "make_s", op: "Add", reason: "kept on request" },
      { node: "make_y", op: "Softmax", reason: "kept on request" },
    ]);
    expect(constantsOf(kept.model.graph)).toEqual({ w: "float16", b: "float" });
    expect(await measureDifference(denseModel(), { keep: ["make_s", "Softmax"] })).toBeLessThan(
      0.002,
    );
  });

  it("include operators without an FP16 form in the model's version", async () => {
    const rangeModel = (opset: number) =>
      model({
        opset,
        inputs: ["n: float []", "x: float [N]"],
        outputs: ["y: float [N]"],
        constants: [
          floatTensor("zero", [0], []),
          floatTensor("one", [1], []),
          floatTensor("w", [2], [1]),
        ],
        nodes: [
          node("Abs n -> m"),
          node("Range zero m one -> r"),
          node("Concat x r -> z", [makeIntAttribute("axis", 0)]),
          node("Mul z w -> y"),
        ],
      });
    expect(convert(rangeModel(13)).report.kept).toEqual([
      { node: "make_r", op: "Range", reason: expect.stringContaining("version 13") },
    ]);
    expect(await measureDifference(rangeModel(13))).toBeLessThan(0.002);
    expect(convert(rangeModel(27)).report.kept).toEqual([]);
  });

  it("do not include an operator with only one FP32 input", async () => {
    const resize = model({
      inputs: ["x: float [1, 1, 2, 2]"],
      outputs: ["y: float [1, 1, 4, 4]"],
      constants: [floatTensor("scales", [1, 1, 2, 2])],
      nodes: [node("Resize x _ scales -> y")],
    });
    const { model: converted, report } = convert(resize);
    expect(constantsOf(converted.graph)).toEqual({ scales: "float" });
    expect({ fp32: fp32OpsOf(report), casts: report.casts }).toEqual({ fp32: [], casts: 2 });
    expect(await measureDifference(resize)).toBeLessThan(0.001);
  });
});

describe("nodes that stay in FP32", () => {
  it("include operators that lose too much precision, such as a running sum up to 3,000", async () => {
    const sums = model({
      inputs: ["x: float [N]"],
      outputs: ["y: float [M]"],
      constants: [
        floatTensor(
          "ones",
          Array.from({ length: 3000 }, () => 1),
        ),
        int64Tensor("axis", [0], []),
      ],
      nodes: [
        node("Concat x ones -> z", [makeIntAttribute("axis", 0)]),
        node("CumSum z axis -> s"),
        node("Neg s -> y"),
      ],
    });
    expect(fp32OpsOf(convert(sums).report)).toContain("CumSum");
    // FP16 represents only even integers in this range.
    expect(await measureDifference(sums)).toBeLessThan(4);
  });

  it("include moves between FP32 operators, which are not cast to FP16 and back", () => {
    const moves = model({
      inputs: ["x: float [4]"],
      outputs: ["y: float [4]"],
      constants: [
        int64Tensor("axis", [0], []),
        int64Tensor("two", [2, 2]),
        int64Tensor("all", [-1]),
      ],
      nodes: [
        node("Neg x -> n"),
        node("CumSum n axis -> a"),
        node("Reshape a two -> b"),
        node("Transpose b -> c"),
        node("Reshape c all -> d"),
        node("CumSum d axis -> e"),
        node("Neg e -> y"),
      ],
    });
    const { report } = convert(moves);
    expect(fp32OpsOf(report)).toEqual(["CumSum", "Reshape", "Transpose", "Reshape", "CumSum"]);
    // The casts are at x, before the first sum, after the second sum, and at y.
    expect(report.casts).toBe(4);
  });
});

describe("nodes that stay in FP32", () => {
  it("include the separate operators of a variance, because squares overflow", async () => {
    const parts = {
      inputs: ["x: float [N, 4]"],
      outputs: ["y: float [N, 4]"],
      constants: [
        floatTensor("large", [3e4]),
        floatTensor("two", [2], []),
        floatTensor("epsilon", [1e-5], []),
        floatTensor("scale", [1, 2, 3, 4]),
        int64Tensor("axes", [-1]),
      ],
    };
    const norm = model({
      ...parts,
      opset: 18,
      nodes: [
        node("Mul x large -> h"),
        node("ReduceMean h axes -> mean"),
        node("Sub h mean -> d"),
        node("Pow d two -> square"),
        node("ReduceMean square axes -> variance"),
        node("Add variance epsilon -> safe"),
        node("Sqrt safe -> root"),
        node("Div d root -> normal"),
        node("Mul normal scale -> y"),
      ],
    });
    expect(fp32OpsOf(convert(norm).report)).toEqual(["Pow", "ReduceMean", "Add", "Sqrt", "Div"]);
    expect(await measureDifference(norm)).toBeLessThan(0.02);
  });

  it("read an FP32 copy of a constant that FP16 nodes also read", () => {
    const { model: converted } = convert(
      model({
        inputs: ["x: float [2]"],
        outputs: ["y: float [2]"],
        constants: [floatTensor("w", [1, 2])],
        nodes: [node("Mul x w -> h"), node("Add h w -> y")],
      }),
      { keep: ["Add"] },
    );
    expect(opsOf(converted.graph)).toEqual([
      "Cast x -> x_fp16",
      "Mul x_fp16 w_fp16 -> h",
      "Cast h -> h_fp32",
      "Add h_fp32 w -> y",
    ]);
    expect(constantsOf(converted.graph)).toEqual({ w: "float", w_fp16: "float16" });
  });
});

describe("nodes that stay in FP32", () => {
  it("include unknown operators", () => {
    const { report, model: converted } = convert(
      model({
        domains: ["some.where"],
        inputs: ["x: float [1]"],
        outputs: ["y: float [1]"],
        valueInfo: ["s: float [1]"],
        nodes: [node("Neg x -> n"), node("Secret n -> s", [], "some.where"), node("Neg s -> y")],
      }),
    );
    expect(report.kept).toEqual([
      {
        node: "make_s",
        op: "Secret",
        reason: expect.stringMatching(/\bnot specified\b/),
      },
    ]);
    expect(opsOf(converted.graph)).toContain("Secret n_fp32 -> s");
  });

  it("include nodes with fixed FP32 numbers: sparse constants, operators of ai.onnx.ml", () => {
    const sparse = create(AttributeProtoSchema, {
      name: "sparse_value",
      type: AttributeProto_AttributeType.SPARSE_TENSOR,
      sparseTensor: { values: floatTensor("", [1]), indices: int64Tensor("", [0]), dims: [2n] },
    });
    const { report } = convert(
      model({
        domains: ["ai.onnx.ml"],
        inputs: ["x: float [2]"],
        outputs: ["y: float [2]"],
        nodes: [
          node("Constant -> k", [sparse]),
          node("Mul x k -> h"),
          node("Scaler h -> s", [], "ai.onnx.ml"),
          node("Neg s -> y"),
        ],
      }),
    );
    expect(report.kept).toEqual([
      { node: "make_k", op: "Constant", reason: expect.stringContaining("output type") },
      { node: "make_s", op: "Scaler", reason: expect.stringContaining("attributes") },
    ]);
  });

  it("include operators on sequences", async () => {
    const parts = model({
      inputs: ["x: float [4]"],
      outputs: ["y: float [4]"],
      constants: [int64Tensor("axis", [0], [])],
      nodes: [
        node("Neg x -> n"),
        node("SplitToSequence n -> parts", [makeIntAttribute("axis", 0)]),
        node("ConcatFromSequence parts -> z", [makeIntAttribute("axis", 0)]),
        node("Neg z -> y"),
      ],
    });
    expect(fp32OpsOf(convert(parts).report)).toEqual(["SplitToSequence", "ConcatFromSequence"]);
    expect(await measureDifference(parts)).toBeLessThan(0.001);
  });
});

describe("operators that set their output type", () => {
  it("produce FP16: Cast, Constant, ConstantOfShape", async () => {
    const original = model({
      inputs: ["x: float [3]", "ids: int64 [3]"],
      outputs: ["y: float [3]"],
      constants: [int64Tensor("three", [3])],
      nodes: [
        node("Cast ids -> whole", [makeIntAttribute("to", 1)]),
        node("Constant -> half", [floatAttribute("value_float", 0.5)]),
        node("Constant -> third", [makeTensorAttribute("value", floatTensor("", [1 / 3]))]),
        node("ConstantOfShape three -> zeros"),
        node("ConstantOfShape three -> fives", [
          makeTensorAttribute("value", floatTensor("", [5])),
        ]),
        node("Sum x whole half third zeros fives -> y"),
      ],
    });
    const { model: converted, report } = convert(original);
    const types = Object.fromEntries(
      buildValueTable(converted).values.map(({ name, type }) => [name, type]),
    );
    expect(types).toMatchObject({
      whole: "float16",
      half: "float16",
      third: "float16",
      zeros: "float16",
      fives: "float16",
    });
    expect({ kept: report.kept, casts: report.casts }).toEqual({ kept: [], casts: 2 });
    expect(await measureDifference(original)).toBeLessThan(0.01);
  });

  it("stay in FP32 if ONNX Runtime cannot load them in FP16: RandomNormalLike, EyeLike", async () => {
    const original = model({
      inputs: ["ids: double [2, 2]"],
      outputs: ["y: float [2, 2]"],
      nodes: [
        node("RandomNormalLike ids -> noise", [makeIntAttribute("dtype", 1)]),
        node("EyeLike ids -> eye", [makeIntAttribute("dtype", 1)]),
        node("Add noise eye -> y"),
      ],
    });
    const { report, bytes } = convert(original);
    expect({ fp32: fp32OpsOf(report), casts: report.casts }).toEqual({
      fp32: ["RandomNormalLike", "EyeLike"],
      casts: 3,
    });
    await (await runtime.createSession(bytes)).dispose();
  });
});

describe("operators that set their output type", () => {
  it("lose casts that have become redundant", async () => {
    const castModel = model({
      inputs: ["x: float [2]"],
      outputs: ["y: float [2]"],
      constants: [floatTensor("w", [1, 2])],
      nodes: [
        node("Mul x w -> a"),
        node("Cast a -> b", [makeIntAttribute("to", 10)]),
        node("Abs b -> c"),
        node("Cast c -> d", [makeIntAttribute("to", 1)]),
        node("Mul d w -> y"),
      ],
    });
    const converted = convert(castModel);
    expect(opsOf(converted.model.graph)).toEqual([
      "Cast x -> x_fp16",
      "Mul x_fp16 w -> a",
      "Abs a -> c",
      "Mul c w -> y_fp16",
      "Cast y_fp16 -> y",
    ]);
    expect(await measureDifference(castModel)).toBeLessThan(0.01);
  });
});

const binaryBranch = (name: string, op: string) =>
  subgraphAttribute(
    name,
    graph({
      outputs: [`${op}: float [2]`],
      constants: [floatTensor("k", [0.1, 0.2])],
      nodes: [node(`${op} h k -> ${op}`)],
    }),
  );
const branchingModel = () =>
  model({
    inputs: ["x: float [2]", "c: bool []"],
    outputs: ["y: float [2]"],
    constants: [floatTensor("w", [1, 2])],
    nodes: [
      node("Mul x w -> h"),
      node("If c -> r", [binaryBranch("then_branch", "Add"), binaryBranch("else_branch", "Mul")]),
      node("Neg r -> y"),
    ],
  });

describe("bodies", () => {
  it("of If become FP16", async () => {
    const converted = convert(branchingModel());
    const bodies = [...traverseGraphs(converted.model.graph)].slice(1);
    expect(bodies.map(constantsOf)).toEqual([{ k: "float16" }, { k: "float16" }]);
    expect(bodies.map(({ output }) => Object.values(typesOf(output)))).toEqual([
      ["float16"],
      ["float16"],
    ]);
    expect(converted.report.casts).toBe(2);
    expect(await measureDifference(branchingModel())).toBeLessThan(0.002);
  });

  it("of a kept node stay in FP32, and the outer values they read are cast once", async () => {
    const converted = convert(branchingModel(), { keep: ["If"] });
    expect(opsOf(converted.model.graph)).toEqual([
      "Cast x -> x_fp16",
      "Mul x_fp16 w -> h",
      "Cast h -> h_fp32",
      "If c -> r",
      "Cast r -> r_fp16",
      "Neg r_fp16 -> y_fp16",
      "Cast y_fp16 -> y",
    ]);
    expect(fp32OpsOf(converted.report)).toEqual(["Add", "Mul", "If"]);
    expect(await measureDifference(branchingModel(), { keep: ["If"] })).toBeLessThan(0.002);
  });

  it("may contain kept nodes and still return FP16", async () => {
    const converted = convert(branchingModel(), { keep: ["Add"] });
    expect([...traverseGraphs(converted.model.graph)].map(opsOf)).toContainEqual([
      "Add h_fp32 k -> Add",
      "Cast Add -> Add_fp16",
    ]);
    expect(await measureDifference(branchingModel(), { keep: ["Add"] })).toBeLessThan(0.002);
  });
});

describe("bodies", () => {
  it.each(["Loop", "Scan"])("of %s carry FP16", async (op) => {
    const step = graph({
      inputs:
        op === "Loop"
          ? ["i: int64 []", "go: bool []", "sum: float [2]"]
          : ["sum: float [2]", "row: float [2]"],
      outputs:
        op === "Loop"
          ? ["on: bool []", "next: float [2]", "half: float [2]"]
          : ["next: float [2]", "half: float [2]"],
      constants: [floatTensor("k", [0.5])],
      nodes: [
        ...(op === "Loop"
          ? [node("Identity go -> on"), node("Add sum h -> next")]
          : [node("Add sum row -> next")]),
        node("Mul next k -> half"),
      ],
    });
    const loop =
      op === "Loop"
        ? node("Loop three _ h -> last halves", [subgraphAttribute("body", step)])
        : node("Scan h rows -> last halves", [
            makeIntAttribute("num_scan_inputs", 1),
            subgraphAttribute("body", step),
          ]);
    const original = model({
      inputs: ["x: float [2]"],
      outputs: ["y: float [2]", "z: float [3, 2]"],
      constants: [int64Tensor("three", [3], []), floatTensor("rows", [1, 2, 3, 4, 5, 6], [3, 2])],
      nodes: [node("Neg x -> h"), loop, node("Neg last -> y"), node("Neg halves -> z")],
    });
    const converted = convert(original);
    expect({
      kept: converted.report.kept,
      casts: converted.report.casts,
      redundantCasts: findRedundantCasts(converted.model),
    }).toEqual({ kept: [], casts: 3, redundantCasts: [] });
    expect(await measureDifference(original)).toBeLessThan(0.01);
    expect(await measureDifference(original, { keep: [op] })).toBeLessThan(0.01);
  });
});

describe("quantized graphs", () => {
  const quantizedModel = (opset: number, scale: number) =>
    model({
      opset,
      inputs: ["x: float [N, 2]"],
      outputs: ["y: float [N, 2]"],
      constants: [
        floatTensor("s", [scale], []),
        int8Tensor("z", [0], []),
        int8Tensor("w", [127, -64, 3, 100], [2, 2]),
      ],
      nodes: [
        node("QuantizeLinear x s z -> q"),
        node("DequantizeLinear q s z -> d"),
        node("DequantizeLinear w s z -> v"),
        node("MatMul d v -> h"),
        node("Neg h -> y"),
      ],
    });

  it("keep Q and DQ in FP32 if their version does not support FP16", async () => {
    const { report, model: converted } = convert(quantizedModel(13, 0.01));
    expect(fp32OpsOf(report)).toEqual(["QuantizeLinear", "DequantizeLinear", "DequantizeLinear"]);
    expect(constantsOf(converted.graph)).toEqual({ s: "float", z: "int8", w: "int8" });
    expect(await measureDifference(quantizedModel(13, 0.01))).toBeLessThan(0.02);
  });

  it("have FP16 scales from version 19 of the operators", async () => {
    const { report, model: converted } = convert(quantizedModel(19, 0.01));
    expect(report.kept).toEqual([]);
    expect(constantsOf(converted.graph)).toMatchObject({ s: "float16" });
    expect(await measureDifference(quantizedModel(19, 0.01))).toBeLessThan(0.02);
  });

  it("keep a scale in FP32 if FP16 has too few bits for it", () => {
    const { report } = convert(quantizedModel(19, 1e-6));
    expect(report.kept).toHaveLength(3);
    for (const { reason } of report.kept) expect(reason).toMatch(/\bscale\b.*\btoo small\b/);
  });

  it("compute in INT8 as before, with separate scales", async () => {
    const dynamic = model({
      inputs: ["x: float [N, 2]"],
      outputs: ["y: float [N, 2]"],
      constants: [int8Tensor("w", [127, -64, 3, 100], [2, 2]), floatTensor("ws", [0.01], [])],
      nodes: [
        node("Neg x -> n"),
        node("DynamicQuantizeLinear n -> q s z"),
        node("MatMulInteger q w z -> i"),
        node("Cast i -> f", [makeIntAttribute("to", 1)]),
        node("Mul s ws -> scale"),
        node("Mul f scale -> y"),
      ],
    });
    expect(fp32OpsOf(convert(dynamic).report)).toEqual(["DynamicQuantizeLinear"]);
    expect(await measureDifference(dynamic)).toBeLessThan(0.03);
  });
});

describe("unusual graphs", () => {
  it("may read their own outputs, or have an input or a constant as an output", async () => {
    const unusual = model({
      inputs: ["x: float [2]"],
      outputs: ["h: float [2]", "y: float [2]", "x: float [2]", "w: float [2]"],
      constants: [floatTensor("w", [1, 2])],
      nodes: [node("Mul x w -> h"), node("Neg h -> y")],
    });
    const { model: converted } = convert(unusual);
    expect(Object.values(typesOf(converted.graph.output))).toEqual([
      "float",
      "float",
      "float",
      "float",
    ]);
    expect(await measureDifference(unusual)).toBeLessThan(0.002);
    expect(Object.values(typesOf(convert(unusual, { io: "fp16" }).model.graph.output))).toEqual([
      "float16",
      "float16",
      "float16",
      "float16",
    ]);
    expect(await measureDifference(unusual, { io: "fp16", keep: ["Neg"] })).toBeLessThan(0.002);
  });

  it("may list their initializers as inputs, as old files do", async () => {
    const oldFormat = model({
      irVersion: 3,
      opset: 8,
      inputs: ["x: float [2]", "w: float [2]"],
      outputs: ["y: float [2]"],
      constants: [floatTensor("w", [1, 2])],
      nodes: [node("Mul x w -> h"), node("Add h w -> y")],
    });
    expect(typesOf(convert(oldFormat).model.graph.input)).toEqual({ x: "float", w: "float16" });
    expect(await measureDifference(oldFormat)).toBeLessThan(0.002);
    expect(await measureDifference(oldFormat, { keep: ["Add"] })).toBeLessThan(0.002);
  });
});

describe("unusual graphs", () => {
  it("may have overridable defaults, which stay in FP32 like the inputs", () => {
    const { model: converted } = convert(
      model({
        inputs: ["x: float [2]", "w: float [2]"],
        outputs: ["y: float [2]"],
        constants: [floatTensor("w", [1, 2])],
        nodes: [node("Mul x w -> y")],
      }),
    );
    expect({
      constants: constantsOf(converted.graph),
      inputs: typesOf(converted.graph.input),
    }).toEqual({ constants: { w: "float" }, inputs: { x: "float", w: "float" } });
    expect(opsOf(converted.graph)).toContain("Mul x_fp16 w_fp16 -> y_fp16");
  });

  it.each([
    [
      "operators before Cast took a number",
      model({
        opset: 5,
        inputs: ["x: float [1]"],
        outputs: ["y: float [1]"],
        nodes: [node("Neg x -> y")],
      }),
      {},
      /version 5\b/,
    ],
    [
      "a value of unknown type",
      model({
        domains: ["some.where"],
        inputs: ["x: float [1]"],
        outputs: ["y: float [1]"],
        nodes: [node("Secret x -> s", [], "some.where"), node("Neg s -> y")],
      }),
      {},
      /\btype of "s".*\bmake_s \(some\.where\.Secret\)/,
    ],
    ["an unknown entry of `keep`", denseModel(), { keep: ["Gelu"] }, /"Gelu"/],
  ])("are rejected with %s", (_, original, options, detail) => {
    expect(() => convert(original, options)).toThrow(
      expect.objectContaining({
        code: "not_convertible",
        status: 400,
        detail: expect.stringMatching(detail),
      }),
    );
  });
});

it("reports numbers that become infinite", async () => {
  const squares = model({
    inputs: ["x: float [N, 2]"],
    outputs: ["y: float [N, 2]"],
    constants: [floatTensor("large", [6e4])],
    nodes: [node("Mul x large -> h"), node("Mul h large -> y")],
  });
  const { outputs } = await compareModels(runtime, serializeModel(squares), convert(squares).bytes);
  expect(outputs[0]?.lost).toBeGreaterThan(0);
});
