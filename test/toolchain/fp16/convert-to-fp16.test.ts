// Graphs made FP16: what they look like, and that ONNX Runtime takes them and answers almost as before.
import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { compareModels } from "../../../src/toolchain/fp16/compare-models.ts";
import {
  convertToFp16,
  type Fp16Options,
  type Fp16Report,
} from "../../../src/toolchain/fp16/convert-to-fp16.ts";
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
import { traverseGraphs } from "../../../src/toolchain/onnx/graph-traversal.ts";
import { createNativeRuntime } from "../../../src/runtime/native/native-runtime.ts";
import { findRedundantCasts } from "./redundant-casts.ts";
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

/** The largest difference of any output, once ONNX Runtime has run both. */
async function measureDifference(original: Model, options?: Fp16Options): Promise<number> {
  const { outputs } = await compareModels(
    runtime,
    serializeModel(original),
    convert(original, options).bytes,
  );
  return Math.max(...outputs.map(({ maxAbsolute, lost }) => (lost > 0 ? Infinity : maxAbsolute)));
}

const opsOf = ({ node }: GraphProto) =>
  node.map((one) => `${one.opType} ${one.input.join(" ")} -> ${one.output.join(" ")}`);
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
  it("computes in FP16, between a cast at each border", async () => {
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

  it("takes and gives FP16 where that is asked for", async () => {
    const { model, report } = convert(denseModel(), { io: "fp16" });
    expect([typesOf(model.graph.input), typesOf(model.graph.output), report.casts]).toEqual([
      { x: "float16" },
      { y: "float16" },
      0,
    ]);
    expect(await measureDifference(denseModel(), { io: "fp16" })).toBeLessThan(0.002);
  });

  it("is the same bytes each time, and the same graph converted once more", () => {
    const once = convert(denseModel());
    expect(Buffer.from(once.bytes).equals(convert(denseModel()).bytes)).toBe(true);
    expect(Buffer.from(convert(once.model).bytes).equals(once.bytes)).toBe(true);
  });

  it("counts the numbers that FP16 does not have", () => {
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

  it("leaves what is in no FP32 as it is", () => {
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

describe("what stays in FP32", () => {
  it("is what is asked for, by operator or by name, with no casts in between", async () => {
    const both = convert(denseModel(), { keep: ["make_s", "Softmax"] });
    expect(opsOf(both.model.graph)).toEqual([
      "Cast x -> x_fp16",
      "MatMul x_fp16 w -> h",
      "Cast h -> h_fp32",
      "Add h_fp32 b -> s",
      "Softmax s -> y",
    ]);
    expect(both.report.kept).toEqual([
      { node: "make_s", op: "Add", reason: "as asked for" },
      { node: "make_y", op: "Softmax", reason: "as asked for" },
    ]);
    expect(constantsOf(both.model.graph)).toEqual({ w: "float16", b: "float" });
    expect(await measureDifference(denseModel(), { keep: ["make_s", "Softmax"] })).toBeLessThan(
      0.002,
    );
  });

  it("is what the operator's version has no FP16 form for", async () => {
    const range = (opset: number) =>
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
    expect(convert(range(13)).report.kept).toEqual([
      { node: "make_r", op: "Range", reason: "takes no FP16 in version 13 of the operators" },
    ]);
    expect(await measureDifference(range(13))).toBeLessThan(0.002);
    expect(convert(range(27)).report.kept).toEqual([]);
  });

  it("is one input of an operator that is FP16 otherwise", async () => {
    const resize = model({
      inputs: ["x: float [1, 1, 2, 2]"],
      outputs: ["y: float [1, 1, 4, 4]"],
      constants: [floatTensor("scales", [1, 1, 2, 2])],
      nodes: [node("Resize x _ scales -> y")],
    });
    const { model: converted, report } = convert(resize);
    expect(constantsOf(converted.graph)).toEqual({ scales: "float" });
    expect([fp32OpsOf(report), report.casts]).toEqual([[], 2]);
    expect(await measureDifference(resize)).toBeLessThan(0.001);
  });

  it("is what loses too much: a running sum reaches 3,000", async () => {
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
    expect(await measureDifference(sums)).toBeLessThan(4); // FP16 has every second whole number there
  });

  it("moves between operators in FP32 are not cast to FP16 and back", () => {
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
    expect(report.casts).toBe(4); // x, into the first sum, out of the second, y
  });

  it("is a variance that is written out: squares overflow", async () => {
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

  it("is a constant's copy, where both want it", () => {
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

  it("is what comes of an operator that nobody knows", () => {
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
        reason: expect.stringContaining("in neither ONNX's nor ONNX Runtime's specification"),
      },
    ]);
    expect(opsOf(converted.graph)).toContain("Secret n_fp32 -> s");
  });

  it("is what has FP32 numbers that cannot be changed: sparse constants, operators of ai.onnx.ml", () => {
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
      { node: "make_k", op: "Constant", reason: "nothing tells it to make FP16" },
      { node: "make_s", op: "Scaler", reason: "has FP32 numbers in its attributes" },
    ]);
  });

  it("is what works on sequences", async () => {
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

describe("operators that say the type of what they make", () => {
  it("say FP16: Cast, Constant, ConstantOfShape", async () => {
    const made = model({
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
    const { model: converted, report } = convert(made);
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
    expect([report.kept, report.casts]).toEqual([[], 2]);
    expect(await measureDifference(made)).toBeLessThan(0.01);
  });

  it("say FP32 still where ONNX Runtime could not load it otherwise: RandomNormalLike, EyeLike", async () => {
    const made = model({
      inputs: ["ids: double [2, 2]"],
      outputs: ["y: float [2, 2]"],
      nodes: [
        node("RandomNormalLike ids -> noise", [makeIntAttribute("dtype", 1)]),
        node("EyeLike ids -> eye", [makeIntAttribute("dtype", 1)]),
        node("Add noise eye -> y"),
      ],
    });
    const { report, bytes } = convert(made);
    expect([fp32OpsOf(report), report.casts]).toEqual([["RandomNormalLike", "EyeLike"], 3]);
    await (await runtime.createSession(bytes)).dispose();
  });

  it("lose casts that have nothing left to do", async () => {
    const mixed = model({
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
    const converted = convert(mixed);
    expect(opsOf(converted.model.graph)).toEqual([
      "Cast x -> x_fp16",
      "Mul x_fp16 w -> a",
      "Abs a -> c",
      "Mul c w -> y_fp16",
      "Cast y_fp16 -> y",
    ]);
    expect(await measureDifference(mixed)).toBeLessThan(0.01);
  });
});

describe("bodies", () => {
  const branch = (name: string, op: string) =>
    subgraphAttribute(
      name,
      graph({
        outputs: [`${op}: float [2]`],
        constants: [floatTensor("k", [0.1, 0.2])],
        nodes: [node(`${op} h k -> ${op}`)],
      }),
    );
  const choice = () =>
    model({
      inputs: ["x: float [2]", "c: bool []"],
      outputs: ["y: float [2]"],
      constants: [floatTensor("w", [1, 2])],
      nodes: [
        node("Mul x w -> h"),
        node("If c -> r", [branch("then_branch", "Add"), branch("else_branch", "Mul")]),
        node("Neg r -> y"),
      ],
    });

  it("of If are FP16 as well", async () => {
    const converted = convert(choice());
    const bodies = [...traverseGraphs(converted.model.graph)].slice(1);
    expect(bodies.map(constantsOf)).toEqual([{ k: "float16" }, { k: "float16" }]);
    expect(bodies.map(({ output }) => Object.values(typesOf(output)))).toEqual([
      ["float16"],
      ["float16"],
    ]);
    expect(converted.report.casts).toBe(2);
    expect(await measureDifference(choice())).toBeLessThan(0.002);
  });

  it("of a node that is kept are FP32, and what they read from outside is cast once", async () => {
    const converted = convert(choice(), { keep: ["If"] });
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
    expect(await measureDifference(choice(), { keep: ["If"] })).toBeLessThan(0.002);
  });

  it("may hold what is kept, and what they give is FP16 all the same", async () => {
    const converted = convert(choice(), { keep: ["Add"] });
    expect([...traverseGraphs(converted.model.graph)].map(opsOf)).toContainEqual([
      "Add h_fp32 k -> Add",
      "Cast Add -> Add_fp16",
    ]);
    expect(await measureDifference(choice(), { keep: ["Add"] })).toBeLessThan(0.002);
  });

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
    expect([
      converted.report.kept,
      converted.report.casts,
      findRedundantCasts(converted.model),
    ]).toEqual([[], 3, []]);
    expect(await measureDifference(original)).toBeLessThan(0.01);
    expect(await measureDifference(original, { keep: [op] })).toBeLessThan(0.01);
  });
});

describe("quantised graphs", () => {
  const quantised = (opset: number, scale: number) =>
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

  it("keep Q and DQ in FP32 where their version has no FP16", async () => {
    const { report, model: converted } = convert(quantised(13, 0.01));
    expect(fp32OpsOf(report)).toEqual(["QuantizeLinear", "DequantizeLinear", "DequantizeLinear"]);
    expect(constantsOf(converted.graph)).toEqual({ s: "float", z: "int8", w: "int8" });
    expect(await measureDifference(quantised(13, 0.01))).toBeLessThan(0.02);
  });

  it("have FP16 scales from version 19 of the operators on", async () => {
    const { report, model: converted } = convert(quantised(19, 0.01));
    expect([report.kept, constantsOf(converted.graph)["s"]]).toEqual([[], "float16"]);
    expect(await measureDifference(quantised(19, 0.01))).toBeLessThan(0.02);
  });

  it("keep a scale in FP32 that FP16 has too few bits for", () => {
    const { report } = convert(quantised(19, 1e-6));
    expect(report.kept.map(({ reason }) => reason)).toEqual(
      Array.from({ length: 3 }, () => expect.stringContaining("too small")),
    );
  });

  it("compute in INT8 as before, with scales of their own", async () => {
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

describe("graphs of other shapes", () => {
  it("read an output of theirs, have an input or a constant as output", async () => {
    const odd = model({
      inputs: ["x: float [2]"],
      outputs: ["h: float [2]", "y: float [2]", "x: float [2]", "w: float [2]"],
      constants: [floatTensor("w", [1, 2])],
      nodes: [node("Mul x w -> h"), node("Neg h -> y")],
    });
    const { model: converted } = convert(odd);
    expect(Object.values(typesOf(converted.graph.output))).toEqual([
      "float",
      "float",
      "float",
      "float",
    ]);
    expect(await measureDifference(odd)).toBeLessThan(0.002);
    expect(Object.values(typesOf(convert(odd, { io: "fp16" }).model.graph.output))).toEqual([
      "float16",
      "float16",
      "float16",
      "float16",
    ]);
    expect(await measureDifference(odd, { io: "fp16", keep: ["Neg"] })).toBeLessThan(0.002);
  });

  it("list their initializers as inputs, as old files do", async () => {
    const old = model({
      irVersion: 3,
      opset: 8,
      inputs: ["x: float [2]", "w: float [2]"],
      outputs: ["y: float [2]"],
      constants: [floatTensor("w", [1, 2])],
      nodes: [node("Mul x w -> h"), node("Add h w -> y")],
    });
    expect(typesOf(convert(old).model.graph.input)).toEqual({ x: "float", w: "float16" });
    expect(await measureDifference(old)).toBeLessThan(0.002);
    expect(await measureDifference(old, { keep: ["Add"] })).toBeLessThan(0.002);
  });

  it("may let a caller replace a default, which is FP32 then as the inputs are", () => {
    const { model: converted } = convert(
      model({
        inputs: ["x: float [2]", "w: float [2]"],
        outputs: ["y: float [2]"],
        constants: [floatTensor("w", [1, 2])],
        nodes: [node("Mul x w -> y")],
      }),
    );
    expect([constantsOf(converted.graph), typesOf(converted.graph.input)]).toEqual([
      { w: "float" },
      { x: "float", w: "float" },
    ]);
    expect(opsOf(converted.graph)).toContain("Mul x_fp16 w_fp16 -> y_fp16");
  });

  it.each([
    [
      "of a version before Cast took a number",
      model({
        opset: 5,
        inputs: ["x: float [1]"],
        outputs: ["y: float [1]"],
        nodes: [node("Neg x -> y")],
      }),
      {},
      "version 5",
    ],
    [
      "with a value of unknown type",
      model({
        domains: ["some.where"],
        inputs: ["x: float [1]"],
        outputs: ["y: float [1]"],
        nodes: [node("Secret x -> s", [], "some.where"), node("Neg s -> y")],
      }),
      {},
      'type of "s", which make_s (some.where.Secret) makes',
    ],
    ["without what is to be kept", denseModel(), { keep: ["Gelu"] }, '"Gelu", to be kept'],
  ])("are refused: %s", (_, original, options, reason) => {
    expect(() => convert(original, options)).toThrow(
      expect.objectContaining({
        code: "not_convertible",
        status: 400,
        message: expect.stringContaining(reason),
      }),
    );
  });
});

it("tells numbers that are lost", async () => {
  const squares = model({
    inputs: ["x: float [N, 2]"],
    outputs: ["y: float [N, 2]"],
    constants: [floatTensor("large", [6e4])],
    nodes: [node("Mul x large -> h"), node("Mul h large -> y")],
  });
  const { outputs } = await compareModels(runtime, serializeModel(squares), convert(squares).bytes);
  expect(outputs[0]?.lost).toBeGreaterThan(0);
});
