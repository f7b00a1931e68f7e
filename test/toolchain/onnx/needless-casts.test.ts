// Casts that change nothing go; those that round stay.
import { expect, it } from "vitest";
import { removeNeedlessCasts } from "../../../src/toolchain/onnx/needless-casts.ts";
import { intAttribute } from "../../../src/toolchain/onnx/nodes.ts";
import type { NodeProto } from "../../../src/toolchain/onnx/proto/onnx_pb.js";
import { codeOf } from "../../../src/toolchain/onnx/tensors.ts";
import { valuesOf } from "../../../src/toolchain/onnx/values.ts";
import { body, graph, model, node } from "./small-model.ts";

const cast = (from: string, type: string, to: string) =>
  node(`Cast ${from} -> ${to}`, [intAttribute("to", codeOf(type))]);

function left(input: string, output: string, nodes: readonly NodeProto[]): string[] {
  const changed = model({ inputs: [input, "c: bool []"], outputs: [output], nodes });
  removeNeedlessCasts(changed);
  expect(() => valuesOf(changed)).not.toThrow();
  return changed.graph.node.map(
    ({ opType, input, output }) => `${opType} ${input.join(" ")} -> ${output.join(" ")}`,
  );
}

it.each<[string, string, NodeProto[], string[]]>([
  [
    "to the type that it has",
    "x: float [1]",
    [cast("x", "float", "a"), node("Neg a -> y")],
    ["Neg x -> y"],
  ],
  [
    "to a wider type and back",
    "x: float16 [1]",
    [cast("x", "float", "a"), cast("a", "float16", "b"), node("Neg b -> y")],
    ["Neg x -> y"],
  ],
  [
    "there and back twice",
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
    "but not what something else reads",
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
    "but not to a narrower type and back: it rounds",
    "x: float [1]",
    [cast("x", "float16", "a"), cast("a", "float", "b"), node("Neg b -> y")],
    ["Cast x -> a", "Cast a -> b", "Neg b -> y"],
  ],
  [
    "an output keeps its name",
    "x: float16 [1]",
    [cast("x", "float", "a"), cast("a", "float16", "y")],
    ["Identity x -> y"],
  ],
  [
    "for what is in a body",
    "x: float16 [1]",
    [
      cast("x", "float16", "a"),
      node("If c -> y", [
        body("then_branch", graph({ outputs: ["z"], nodes: [node("Neg a -> z")] })),
        body("else_branch", graph({ outputs: ["z"], nodes: [node("Abs a -> z")] })),
      ]),
    ],
    ["If c -> y"],
  ],
])("%s", (_, input, nodes, expected) => {
  const output = input.includes("float16") ? "y: float16 [1]" : "y: float [1]";
  expect(left(input, output, nodes)).toEqual(expected);
});
