// Tests the removal of casts without effect; casts that round remain.
import { expect, it } from "vitest";
import { makeIntAttribute } from "../../../src/toolchain/onnx/nodes.ts";
import type { NodeProto } from "../../../src/toolchain/onnx/proto/onnx_pb.js";
import { removeRedundantCasts } from "../../../src/toolchain/onnx/redundant-casts.ts";
import { toDataType } from "../../../src/toolchain/onnx/tensor-data.ts";
import { buildValueTable } from "../../../src/toolchain/onnx/value-table.ts";
import { subgraphAttribute, graph, model, node } from "./model-builders.ts";

const cast = (from: string, type: string, to: string) =>
  node(`Cast ${from} -> ${to}`, [makeIntAttribute("to", toDataType(type))]);

function remainingNodes(input: string, output: string, nodes: readonly NodeProto[]): string[] {
  const changed = model({ inputs: [input, "c: bool []"], outputs: [output], nodes });
  removeRedundantCasts(changed);
  expect(() => buildValueTable(changed)).not.toThrow();
  return changed.graph.node.map(
    ({ opType, input, output }) => `${opType} ${input.join(" ")} -> ${output.join(" ")}`,
  );
}

it.each<[string, string, NodeProto[], string[]]>([
  [
    "removes a cast to the value's own type",
    "x: float [1]",
    [cast("x", "float", "a"), node("Neg a -> y")],
    ["Neg x -> y"],
  ],
  [
    "removes a cast to a wider type and back",
    "x: float16 [1]",
    [cast("x", "float", "a"), cast("a", "float16", "b"), node("Neg b -> y")],
    ["Neg x -> y"],
  ],
  [
    "removes two round trips",
    "x: float16 [1]",
    [
      cast("x", "float", "a"),
      cast("a", "float16", "b"),
      cast("b", "double", "d"),
      cast("d", "float16", "e"),
      node("Neg e -> y"),
    ],
    ["Neg x -> y"],
  ],
  [
    "keeps a cast with another reader",
    "x: float16 [1]",
    [
      cast("x", "float", "a"),
      cast("a", "float16", "b"),
      node("Neg b -> n"),
      node("Where c a a -> w"),
      cast("w", "float16", "v"),
      node("Add n v -> y"),
    ],
    ["Cast x -> a", "Neg x -> n", "Where c a a -> w", "Cast w -> v", "Add n v -> y"],
  ],
  [
    "keeps a cast to a narrower type and back, because it rounds",
    "x: float [1]",
    [cast("x", "float16", "a"), cast("a", "float", "b"), node("Neg b -> y")],
    ["Cast x -> a", "Cast a -> b", "Neg b -> y"],
  ],
  [
    "keeps the name of an output",
    "x: float16 [1]",
    [cast("x", "float", "a"), cast("a", "float16", "y")],
    ["Identity x -> y"],
  ],
  [
    "removes a cast that bodies read",
    "x: float16 [1]",
    [
      cast("x", "float16", "a"),
      node("If c -> y", [
        subgraphAttribute("then_branch", graph({ outputs: ["z"], nodes: [node("Neg a -> z")] })),
        subgraphAttribute("else_branch", graph({ outputs: ["z"], nodes: [node("Abs a -> z")] })),
      ]),
    ],
    ["If c -> y"],
  ],
])("%s", (_, input, nodes, expected) => {
  const output = input.includes("float16") ? "y: float16 [1]" : "y: float [1]";
  expect(remainingNodes(input, output, nodes)).toEqual(expected);
});
