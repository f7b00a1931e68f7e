// Tests the parsing of labels in a model's metadata, in the forms that exporters write.
import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { readLabelMetadata, parseLabels } from "../../../src/toolchain/import/label-metadata.ts";
import { StringStringEntryProtoSchema } from "../../../src/toolchain/onnx/proto/onnx_pb.js";
import { model } from "../onnx/model-builders.ts";

it.each([
  ['["cat", "dog"]', ["cat", "dog"]],
  ['{"0": "cat", "1": "dog"}', ["cat", "dog"]],
  ['{"1": "dog", "0": "cat"}', ["cat", "dog"]],
  ["{0: 'cat', 1: 'dog'}", ["cat", "dog"]],
  [
    `{0: "dog's", 1: 'say "cat"', 2: 'it\\'s, 3: no key'}`,
    ["dog's", 'say "cat"', "it's, 3: no key"],
  ],
  ["['cat', 'dog']", ["cat", "dog"]],
  ["cat\r\nhot dog\n\n", ["cat", "hot dog"]],
])("parses %j", (text, labels) => {
  expect(parseLabels(text)).toEqual(labels);
});

it.each([
  '["cat", "cat"]',
  "[]",
  "[1, 2]",
  '{"0": "cat", "2": "dog"}',
  "{0: cat}",
  "{'cat': 0, 'dog': 1}",
  "cat",
  "",
  "{",
  '[["cat"], ["dog"]]',
  "null",
])("rejects %j", (text) => {
  expect(parseLabels(text)).toBeUndefined();
});

it("reads labels under several keys, ignoring case", () => {
  const sample = model({ outputs: [], nodes: [] });
  sample.metadataProps = [
    ["names", "unreadable"],
    ["Classes", '["cat", "dog"]'],
    ["author", '["me", "you"]'],
  ].map(([key = "", value = ""]) => create(StringStringEntryProtoSchema, { key, value }));
  expect(readLabelMetadata(sample)).toEqual(["cat", "dog"]);
  expect(readLabelMetadata(model({ outputs: [], nodes: [] }))).toBeUndefined();
});
