// Tests reading and writing ONNX files: the round trip is lossless, and invalid files are rejected.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { create, equals } from "@bufbuild/protobuf";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { EdgeTierError } from "../../../src/core/errors.ts";
import { parseModel, serializeModel } from "../../../src/toolchain/onnx/model-file.ts";
import {
  type GraphProto,
  GraphProtoSchema,
  ModelProtoSchema,
  TensorProtoSchema,
} from "../../../src/toolchain/onnx/proto/onnx_pb.js";
import { seededRandom } from "../../../src/toolchain/seeded-random.ts";
import { propertyRuns } from "../../support/property-runs.ts";
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

/** Returns "read", or the code of the error. */
function readOutcome(bytes: Uint8Array): string {
  try {
    parseModel(bytes);
    return "read";
  } catch (error) {
    if (error instanceof EdgeTierError) return error.code;
    throw error;
  }
}

describe("the round trip", () => {
  it.each(files)("preserves the bytes of %s", (path) => {
    const bytes = readFileSync(path);
    expect(bytes.equals(serializeModel(parseModel(bytes)))).toBe(true);
  });

  it("preserves the bytes of another writer", () => {
    const bytes = makeSmallMobileNet();
    expect(Buffer.from(serializeModel(parseModel(bytes))).equals(bytes)).toBe(true);
  });

  it("preserves fields that the schema does not know, in a model and in a node", () => {
    const changed = addModel();
    changed.$unknown = [{ no: 900, wireType: 2, data: Uint8Array.of(3, 1, 2, 3) }];
    for (const node of changed.graph.node)
      node.$unknown = [{ no: 901, wireType: 0, data: Uint8Array.of(42) }];
    const bytes = serializeModel(changed);
    // The unknown fields are two tags of two bytes, and the data.
    expect(bytes.byteLength).toBe(serializeModel(addModel()).byteLength + 9);
    expect(serializeModel(parseModel(bytes))).toEqual(bytes);
  });

  it("preserves a field that was written with its default value", () => {
    const with0 = Uint8Array.of(...serializeModel(addModel()), 0x28, 0x00); // model_version: 0
    expect(serializeModel(parseModel(with0)).byteLength).toBe(with0.byteLength);
  });
});

describe("the round trip of arbitrary models", () => {
  it("preserves all fields", () => {
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
        const original = create(ModelProtoSchema, {
          irVersion: version,
          opsetImport: [{ version }],
          graph,
        });
        expect(equals(ModelProtoSchema, parseModel(serializeModel(original)), original)).toBe(true);
      }),
      { numRuns: propertyRuns(200), seed: 1 },
    );
  });
});

describe("invalid model files", () => {
  it.each([
    ["no bytes", new Uint8Array(), /\bno graph/],
    ["text", new TextEncoder().encode('{"not": "a model"}'), /./],
    ["zeros", new Uint8Array(100), /./],
    [
      "no operator version",
      serializeModel(create(ModelProtoSchema, { graph: {} })),
      /opset_import/,
    ],
    ["a length beyond the end", Uint8Array.of(0x3a, 0xff, 0xff, 0xff, 0x7f), /./],
  ])("are rejected with %s", (_, bytes, detail) => {
    expect(() => parseModel(bytes)).toThrow(
      expect.objectContaining({
        code: "invalid_model_file",
        status: 400,
        detail: expect.stringMatching(detail),
      }),
    );
  });

  it.each([
    ["too few bytes", floatTensor("w", [1], [2]), /float \[2\].* 4 bytes/],
    [
      "too many numbers",
      create(TensorProtoSchema, { name: "w", dataType: 1, dims: [1n], floatData: [1, 2] }),
      /float \[1\].* 2 numbers/,
    ],
    ["a negative dimension", int64Tensor("w", [], [-1]), /\[-1\]/],
    [
      "dimensions whose product overflows",
      floatTensor("w", [], [2 ** 31, 2 ** 31, 2 ** 31]),
      / 0 bytes/,
    ],
  ])("are rejected for a tensor with %s", (_, tensor, detail) => {
    const bytes = serializeModel(model({ outputs: ["w"], nodes: [], constants: [tensor] }));
    expect(() => parseModel(bytes)).toThrow(
      expect.objectContaining({
        code: "invalid_model_file",
        detail: expect.stringMatching(detail),
      }),
    );
  });
});

describe("invalid model files", () => {
  it("are rejected for data in separate files, anywhere in the model", () => {
    expect(() => parseModel(readFileSync(join(FIXTURES, "external-data.onnx")))).toThrow(
      expect.objectContaining({
        code: "external_data",
        detail: expect.stringContaining('"package.json"'),
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
        detail: expect.stringContaining("etc/passwd"),
      }),
    );
  });
});

describe("damaged or hostile model files", () => {
  it("are rejected for excessively nested bodies", () => {
    let inner = graph({ outputs: [], nodes: [] });
    for (let depth = 0; depth < 100; depth++)
      inner = graph({
        outputs: [],
        nodes: [node("If c -> y", [subgraphAttribute("then_branch", inner)])],
      });
    const bytes = serializeModel(
      model({ outputs: [], nodes: [node("If c -> y", [subgraphAttribute("then_branch", inner)])] }),
    );
    expect(() => parseModel(bytes)).toThrow(
      expect.objectContaining({ code: "invalid_model_file" }),
    );
  });

  it("are rejected after every truncation", () => {
    const bytes = serializeModel(addModel());
    const outcomes = Array.from({ length: bytes.byteLength }, (_, length) =>
      readOutcome(bytes.subarray(0, length)),
    );
    // The operators' versions are written last, so every truncated file lacks them.
    expect(outcomes.filter((outcome) => outcome === "read")).toEqual([]);
    expect(readOutcome(bytes)).toBe("read");
  });

  it("are read or rejected after 10,000 mutations", () => {
    const random = seededRandom(1);
    const bytes = readFileSync(join(FIXTURES, "slow-bag-of-tokens.onnx"));
    const counts = new Map<string, number>();
    for (let run = 0; run < 10_000; run++) {
      const mutated = Uint8Array.from(bytes);
      for (let flips = 1 + Math.floor(random() * 4); flips > 0; flips--) {
        // Most of the file is weights, so half of the mutations affect the beginning.
        const position = Math.floor(random() * (flips % 2 === 0 ? mutated.length : 900));
        mutated[position] = Math.floor(random() * 256);
      }
      const outcome = readOutcome(mutated);
      counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
    }
    expect([...counts.keys()].sort()).toEqual(["external_data", "invalid_model_file", "read"]);
  });
});
