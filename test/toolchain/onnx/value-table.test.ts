// Tests the value table: origins, types and uses of values.
import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { readFloatConstant } from "../../../src/toolchain/onnx/constants.ts";
import type { Model } from "../../../src/toolchain/onnx/model-file.ts";
import { makeIntAttribute, makeTensorAttribute } from "../../../src/toolchain/onnx/nodes.ts";
import { opsetsOf, findSignature } from "../../../src/toolchain/onnx/operators/signatures.ts";
import {
  AttributeProtoSchema,
  OperatorSetIdProtoSchema,
} from "../../../src/toolchain/onnx/proto/onnx_pb.js";
import { buildValueTable } from "../../../src/toolchain/onnx/value-table.ts";
import {
  subgraphAttribute,
  floatAttribute,
  floatTensor,
  graph,
  int64Tensor,
  model,
  node,
} from "./model-builders.ts";

const typesIn = (model: Model) =>
  Object.fromEntries(buildValueTable(model).values.map(({ name, type }) => [name, type]));
function valueIn(model: Model, name: string) {
  const found = buildValueTable(model).values.find((value) => value.name === name);
  if (found === undefined) throw new Error(`there is no ${name}`);
  return found;
}

describe("operator signatures", () => {
  const opsets = (version: number) =>
    opsetsOf({ opsetImport: [create(OperatorSetIdProtoSchema, { version: BigInt(version) })] });

  it("are the newest that the model's operator version includes", () => {
    const resize = node("Resize x roi scales -> y");
    expect(findSignature(resize, opsets(9))).toBeUndefined();
    expect(findSignature(resize, opsets(10))?.input(1)).toEqual({ type: "float" });
    const newest = findSignature(resize, opsets(22));
    expect({
      roi: newest?.input(1),
      scales: newest?.input(2),
      beyondLast: newest?.input(4),
    }).toEqual({
      roi: { variable: "T2", allowsFp16: true },
      scales: { type: "float" },
      beyondLast: undefined,
    });
  });

  it("repeat variadic operands with one type (Concat) or separate types (Loop)", () => {
    const concat = findSignature(node("Concat a b c -> y"), opsets(13));
    expect(concat?.input(7)).toEqual(concat?.input(0));
    const loop = findSignature(node("Loop n c a b -> y z"), opsets(13));
    expect({ count: loop?.input(0), condition: loop?.input(1) }).toEqual({
      count: { type: "int64" },
      condition: { type: "bool" },
    });
    expect(loop?.input(3)).not.toEqual(loop?.input(2));
  });

  it("include ONNX Runtime's own operators, and no inherited property names", () => {
    const contrib = new Map([["com.microsoft", 1]]);
    expect(
      findSignature(
        node("SkipLayerNormalization x s g -> y", [], "com.microsoft"),
        contrib,
      )?.output(1),
    ).toEqual({ type: "float" });
    expect(findSignature(node("Relu x -> y"), contrib)).toBeUndefined();
    expect(findSignature(node("constructor x -> y"), opsets(13))).toBeUndefined();
    expect(
      findSignature(node("Relu x -> y", [], "__proto__"), new Map([["__proto__", 1]])),
    ).toBeUndefined();
  });
});

describe("types of values", () => {
  it("derive from inputs, initializers, signatures and attributes", () => {
    const typed = model({
      inputs: ["x: float [N, 4]", "ids: int64 [N]"],
      outputs: ["best"],
      constants: [floatTensor("w", [1]), int64Tensor("shape", [1])],
      nodes: [
        node("Mul x w -> scaled"),
        node("Cast ids -> whole", [makeIntAttribute("to", 11)]),
        node("Shape scaled -> size"),
        node("ConstantOfShape shape -> zeros"),
        node("ConstantOfShape shape -> ones", [makeTensorAttribute("value", int64Tensor("", [1]))]),
        node("Constant -> number", [floatAttribute("value_float", 1)]),
        node("RandomUniformLike whole -> random"),
        node("TopK scaled shape -> top best"),
        node("DynamicQuantizeLinear x -> q scale zero"),
        node("SplitToSequence x -> parts"),
        node("SequenceAt parts shape -> part"),
      ],
    });
    expect(typesIn(typed)).toEqual({
      x: "float",
      ids: "int64",
      w: "float",
      shape: "int64",
      scaled: "float",
      whole: "double",
      size: "int64",
      zeros: "float",
      ones: "int64",
      number: "float",
      random: "double",
      top: "float",
      best: "int64",
      q: "uint8",
      scale: "float",
      zero: "uint8",
      parts: "seq(float)",
      part: "float",
    });
  });
});

describe("types of values", () => {
  it("derive from value infos for unknown operators", () => {
    const parts = {
      inputs: ["x: float [1]"],
      outputs: ["y: float16 [1]"],
      nodes: [node("Secret x -> h", [], "some.where"), node("Secret h -> y", [], "some.where")],
    };
    expect(typesIn(model(parts))).toEqual({ x: "float", h: undefined, y: "float16" });
    expect(typesIn(model({ ...parts, valueInfo: ["h: int8 [1]"] }))).toMatchObject({ h: "int8" });
  });

  it("propagate into bodies and out of them", () => {
    const loopBody = graph({
      inputs: ["i", "go", "sum"],
      outputs: ["go_on", "next", "row"],
      nodes: [
        node("Identity go -> go_on"),
        node("Add sum step -> next"),
        node("Cast next -> row", [makeIntAttribute("to", 10)]),
      ],
    });
    const looped = model({
      inputs: ["n: int64 []", "start: double [2]", "step: double [2]"],
      outputs: ["last", "rows"],
      nodes: [node("Loop n _ start -> last rows", [subgraphAttribute("body", loopBody)])],
    });
    expect(typesIn(looped)).toMatchObject({
      i: "int64",
      go: "bool",
      sum: "double",
      next: "double",
      row: "float16",
      last: "double",
      rows: "float16",
    });
  });
});

describe("uses of values", () => {
  const branch = (name: string) =>
    subgraphAttribute(name, graph({ outputs: ["z"], nodes: [node("Add x y -> z")] }));
  const branched = model({
    inputs: ["c: bool []", "x: float [1]"],
    outputs: ["x", "r"],
    nodes: [node("Relu x -> y"), node("If c -> r", [branch("then_branch"), branch("else_branch")])],
  });

  it("include uses in bodies", () => {
    const uses = valueIn(branched, "x").uses.map((use) =>
      use.kind === "node" ? use.node.opType : `output ${use.position}`,
    );
    expect(uses).toEqual(["Relu", "Add", "Add", "output 0"]);
  });

  it("are separate for equal names in two bodies", () => {
    const sameNamed = buildValueTable(branched).values.filter(({ name }) => name === "z");
    expect(sameNamed.map(({ uses }) => uses.length)).toEqual([1, 1]);
    expect(sameNamed[0]?.graph).not.toBe(sameNamed[1]?.graph);
  });
});

describe("constants", () => {
  it("are initializers and Constant nodes, but not defaults that a caller may override", () => {
    const parts = {
      inputs: ["x: float [1]", "w: float [1]"],
      outputs: ["y"],
      constants: [floatTensor("w", [3])],
      nodes: [
        node("Constant -> c", [
          create(AttributeProtoSchema, { name: "value_floats", type: 6, floats: [1, 2] }),
        ]),
        node("Sum x w c -> y"),
      ],
    };
    expect(readFloatConstant(valueIn(model(parts), "c"))).toEqual(Float32Array.of(1, 2));
    expect(readFloatConstant(valueIn(model(parts), "w"))).toBeUndefined();
    expect(readFloatConstant(valueIn(model({ ...parts, irVersion: 3 }), "w"))).toEqual(
      Float32Array.of(3),
    );
    expect(readFloatConstant(valueIn(model(parts), "x"))).toBeUndefined();
  });
});

describe("an invalid graph", () => {
  it.each([
    ["reads an undefined value", [node("Add x nothing -> y")], /make_y .*"nothing"/],
    ["reads a later value", [node("Relu y -> z"), node("Relu x -> y")], /make_z .*"y"/],
    ["defines a value twice", [node("Relu x -> y"), node("Abs x -> y")], /"y"/],
    [
      "has a name that is not UTF-8",
      [node("Relu x -> \u{fffd}"), node("Relu x -> y")],
      /"\u{fffd}"/u,
    ],
  ])("is rejected if it %s", (_, nodes, detail) => {
    const broken = model({ inputs: ["x: float [1]"], outputs: ["y"], nodes });
    expect(() => buildValueTable(broken)).toThrow(
      expect.objectContaining({
        code: "invalid_model_file",
        detail: expect.stringMatching(detail),
      }),
    );
  });

  it("is rejected if its output is undefined", () => {
    expect(() => buildValueTable(model({ inputs: [], outputs: ["y"], nodes: [] }))).toThrow(
      expect.objectContaining({
        code: "invalid_model_file",
        detail: expect.stringMatching(/output of small .*"y"/),
      }),
    );
  });
});
