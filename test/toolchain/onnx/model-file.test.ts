// Reading and writing ONNX files: nothing is lost, and what is no model is refused with the reason.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { create, equals } from "@bufbuild/protobuf";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseModel, serializeModel } from "../../../src/toolchain/onnx/model-file.ts";
import {
  type GraphProto,
  GraphProtoSchema,
  ModelProtoSchema,
  TensorProtoSchema,
} from "../../../src/toolchain/onnx/proto/onnx_pb.js";
import { EdgeTierError } from "../../../src/core/errors.ts";
import { seededRandom } from "../../../src/toolchain/seeded-random.ts";
import { makeSmallMobileNet } from "../../support/reference-models.ts";
import {
  subgraphAttribute,
  floatTensor,
  graph,
  int64Tensor,
  model,
  node,
} from "./model-builders.ts";

const FIXTURES = join(import.meta.dirname, "../../fixtures");
const MODELS = join(import.meta.dirname, "../../../models");
const onnxFilesIn = (folder: string) =>
  readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".onnx"))
    .map((name) => join(folder, name));
const files = [...onnxFilesIn(FIXTURES), ...onnxFilesIn(MODELS)].filter(
  (path) => !path.endsWith("external-data.onnx"),
);

const addModel = () =>
  model({
    inputs: ["x: float [N, 2]"],
    outputs: ["y: float [N, 2]"],
    nodes: [node("Add x b -> y")],
    constants: [floatTensor("b", [1, 2])],
  });

/** What reading comes to: a model, or the code of the error. */
function readOutcome(bytes: Uint8Array): string {
  try {
    parseModel(bytes);
    return "read";
  } catch (error) {
    if (error instanceof EdgeTierError) return error.code;
    throw error;
  }
}

describe("without loss", () => {
  it.each(files)("writes the bytes that it read: %s", (path) => {
    const bytes = readFileSync(path);
    expect(bytes.equals(serializeModel(parseModel(bytes)))).toBe(true);
  });

  it("writes the bytes that another writer made", () => {
    const bytes = makeSmallMobileNet();
    expect(Buffer.from(serializeModel(parseModel(bytes))).equals(bytes)).toBe(true);
  });

  it("keeps fields that the schema does not know, in a model and in a node", () => {
    const changed = addModel();
    changed.$unknown = [{ no: 900, wireType: 2, data: Uint8Array.of(3, 1, 2, 3) }];
    for (const one of changed.graph.node)
      one.$unknown = [{ no: 901, wireType: 0, data: Uint8Array.of(42) }];
    const bytes = serializeModel(changed);
    expect(bytes.byteLength).toBe(serializeModel(addModel()).byteLength + 9); // two tags of two bytes, and the data
    expect(serializeModel(parseModel(bytes))).toEqual(bytes);
  });

  it("keeps a field that was written with its default value", () => {
    const with0 = Uint8Array.of(...serializeModel(addModel()), 0x28, 0x00); // model_version: 0
    expect(serializeModel(parseModel(with0)).byteLength).toBe(with0.byteLength);
  });

  it("reads what it wrote, for any model", () => {
    const name = fc.string({ maxLength: 8, unit: "grapheme" });
    const tensor = fc
      .tuple(name, fc.array(fc.float(), { maxLength: 5 }), fc.boolean())
      .map(([name, values, raw]) =>
        raw
          ? floatTensor(name, values)
          : create(TensorProtoSchema, {
              name,
              dataType: 1,
              dims: [BigInt(values.length)],
              floatData: values,
            }),
      );
    const { graphs } = fc.letrec<{ graphs: GraphProto }>((tie) => ({
      graphs: fc
        .tuple(
          fc.array(fc.tuple(name, name, fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })), {
            maxLength: 4,
          }),
          fc.array(tensor, { maxLength: 2 }),
          fc.option(tie("graphs"), { nil: undefined, depthSize: "small" }),
        )
        .map(([nodes, initializer, inner]) =>
          create(GraphProtoSchema, {
            node: nodes.map(([opType, output, i]) => ({
              opType,
              output: [output],
              input: ["", output],
              attribute: [
                { name: "i", type: 2, i },
                ...(inner === undefined ? [] : [subgraphAttribute("body", inner)]),
              ],
            })),
            initializer,
          }),
        ),
    }));
    fc.assert(
      fc.property(graphs, fc.bigInt({ min: 0n, max: 100n }), (graph, version) => {
        const made = create(ModelProtoSchema, {
          irVersion: version,
          opsetImport: [{ version }],
          graph,
        });
        expect(equals(ModelProtoSchema, parseModel(serializeModel(made)), made)).toBe(true);
      }),
      { numRuns: 200, seed: 1 },
    );
  });
});

describe("what it refuses", () => {
  it.each([
    ["no bytes", new Uint8Array(), "it has no graph"],
    ["text", new TextEncoder().encode('{"not": "a model"}'), "not a valid ONNX model"],
    ["zeros", new Uint8Array(100), "not a valid ONNX model"],
    [
      "no operator version",
      serializeModel(create(ModelProtoSchema, { graph: {} })),
      "opset_import",
    ],
    [
      "a length beyond the end",
      Uint8Array.of(0x3a, 0xff, 0xff, 0xff, 0x7f),
      "not a valid ONNX model",
    ],
  ])("%s", (_, bytes, reason) => {
    expect(() => parseModel(bytes)).toThrow(
      expect.objectContaining({
        code: "invalid_model_file",
        status: 400,
        message: expect.stringContaining(reason),
      }),
    );
  });

  it.each([
    ["too few bytes", floatTensor("w", [1], [2]), "float [2] but holds 4 bytes"],
    [
      "too many numbers",
      create(TensorProtoSchema, { name: "w", dataType: 1, dims: [1n], floatData: [1, 2] }),
      "float [1] but holds 2 numbers",
    ],
    ["a negative dimension", int64Tensor("w", [], [-1]), "negative dimension: [-1]"],
    [
      "dimensions whose product overflows",
      floatTensor("w", [], [2 ** 31, 2 ** 31, 2 ** 31]),
      "holds 0 bytes",
    ],
  ])("a tensor with %s", (_, tensor, reason) => {
    const bytes = serializeModel(model({ outputs: ["w"], nodes: [], constants: [tensor] }));
    expect(() => parseModel(bytes)).toThrow(reason);
  });

  it("data in another file, wherever in the model", () => {
    expect(() => parseModel(readFileSync(join(FIXTURES, "external-data.onnx")))).toThrow(
      expect.objectContaining({
        code: "external_data",
        message: expect.stringContaining('"package.json"'),
      }),
    );
    const outside = create(TensorProtoSchema, {
      name: "w",
      dataType: 1,
      dims: [1n],
      dataLocation: 1,
      externalData: [{ key: "location", value: "../../etc/passwd" }],
    });
    const nested = model({
      outputs: [],
      nodes: [
        node("If c -> y", [
          subgraphAttribute(
            "then_branch",
            graph({ outputs: ["w"], nodes: [], constants: [outside] }),
          ),
        ]),
      ],
    });
    expect(() => parseModel(serializeModel(nested))).toThrow(
      expect.objectContaining({
        code: "external_data",
        message: expect.stringContaining("etc/passwd"),
      }),
    );
  });

  it("bodies in bodies without end", () => {
    let inner = graph({ outputs: [], nodes: [] });
    for (let depth = 0; depth < 100; depth++)
      inner = graph({
        outputs: [],
        nodes: [node("If c -> y", [subgraphAttribute("then_branch", inner)])],
      });
    const bytes = serializeModel(
      model({ outputs: [], nodes: [node("If c -> y", [subgraphAttribute("then_branch", inner)])] }),
    );
    expect(() => parseModel(bytes)).toThrow("recursion depth");
  });

  it("every truncation, or reads what is left: no other error, and no hang", () => {
    const bytes = serializeModel(addModel());
    const outcomes = Array.from({ length: bytes.byteLength }, (_, length) =>
      readOutcome(bytes.subarray(0, length)),
    );
    expect(outcomes.filter((one) => one === "read")).toEqual([]); // the operators' versions come last
    expect(readOutcome(bytes)).toBe("read");
  });

  it("10,000 mutated models, or reads them", () => {
    const random = seededRandom(1);
    const bytes = readFileSync(join(FIXTURES, "slow-bag-of-tokens.onnx"));
    const counts = new Map<string, number>();
    for (let run = 0; run < 10_000; run++) {
      const mutated = Uint8Array.from(bytes);
      for (let flips = 1 + Math.floor(random() * 4); flips > 0; flips--) {
        const at = Math.floor(random() * (flips % 2 === 0 ? mutated.length : 900)); // most of the file is weights
        mutated[at] = Math.floor(random() * 256);
      }
      const found = readOutcome(mutated);
      counts.set(found, (counts.get(found) ?? 0) + 1);
    }
    expect([...counts.keys()].sort()).toEqual(["external_data", "invalid_model_file", "read"]);
  });
});
