// Tests edits of graphs, and the order of their nodes.
import { expect, it } from "vitest";
import {
  UniqueNames,
  NodeChanges,
  redirectUse,
  renameAtOrigin,
} from "../../../src/toolchain/onnx/graph-edits.ts";
import { traverseGraphs } from "../../../src/toolchain/onnx/graph-traversal.ts";
import type { GraphProto } from "../../../src/toolchain/onnx/proto/onnx_pb.js";
import { sortTopologically } from "../../../src/toolchain/onnx/topological-sort.ts";
import { buildValueTable } from "../../../src/toolchain/onnx/value-table.ts";
import { subgraphAttribute, floatTensor, graph, model, node } from "./model-builders.ts";

const addBranch = () =>
  graph({ outputs: ["z"], nodes: [node("Add h b -> z")], constants: [floatTensor("b", [1])] });
const modelWithIf = () =>
  model({
    inputs: ["x: float [1]", "c: bool []"],
    outputs: ["r"],
    nodes: [
      node("Relu x -> h"),
      node("If c -> r", [
        subgraphAttribute("then_branch", addBranch()),
        subgraphAttribute("else_branch", addBranch()),
      ]),
    ],
  });
const describeNodes = (graph: GraphProto) =>
  graph.node.map(
    ({ opType, input, output }) => `${opType} ${input.join(" ")} -> ${output.join(" ")}`,
  );

it("reserves names that are unique in all graphs, for values and nodes", () => {
  const names = new UniqueNames(modelWithIf());
  expect(["new", "new", "h", "b", "make_r"].map((name) => names.reserve(name))).toEqual([
    "new",
    "new_2",
    "h_2",
    "b_2",
    "make_r_2",
  ]);
});

it("renames a value at its origin and at all uses", () => {
  const changed = modelWithIf();
  const value = buildValueTable(changed).values.find(({ name }) => name === "h");
  if (value === undefined) throw new Error("there is no h");
  renameAtOrigin(value, "g");
  for (const use of value.uses) redirectUse(use, "g");
  expect(describeNodes(changed.graph)[0]).toBe("Relu x -> g");
  const added = changed.graph.node[1]?.attribute.map(({ g }) => g?.node[0]?.input[0]);
  expect(added).toEqual(["g", "g"]);
  expect(() => buildValueTable(changed)).not.toThrow();
});

it("inserts and removes nodes together, including in bodies", () => {
  const changed = modelWithIf();
  const [relu] = changed.graph.node;
  if (relu === undefined) throw new Error("there is no node");
  const changes = new NodeChanges();
  for (const value of buildValueTable(changed).values)
    if (value.name === "b" || value.name === "h")
      changes.insertAfterOrigin(value, node(`Abs ${value.name} -> abs_${value.name}`));
  changes.insertAfter(relu, node("Neg x -> neg_x"));
  changes.remove(relu);
  changes.insertFirst(changed.graph, node("Exp x -> h"));
  changes.apply(changed);
  expect(describeNodes(changed.graph)).toEqual([
    "Exp x -> h",
    "Abs h -> abs_h",
    "Neg x -> neg_x",
    "If c -> r",
  ]);
  const bodies = [...traverseGraphs(changed.graph)].slice(1);
  expect(bodies.map(describeNodes)).toEqual([
    ["Abs b -> abs_b", "Add h b -> z"],
    ["Abs b -> abs_b", "Add h b -> z"],
  ]);
  expect(() => buildValueTable(changed)).not.toThrow();
});

it("sorts nodes after those that they read from, in bodies and for bodies, and keeps a valid order", () => {
  const reversedBranch = () =>
    graph({
      outputs: ["z"],
      nodes: [node("Neg k -> z"), node("Add h b -> k")],
      constants: [floatTensor("b", [1])],
    });
  const backwards = model({
    inputs: ["x: float [1]", "c: bool []"],
    outputs: ["y"],
    nodes: [
      node("Neg r -> y"),
      node("If c -> r", [
        subgraphAttribute("then_branch", reversedBranch()),
        subgraphAttribute("else_branch", reversedBranch()),
      ]),
      node("Abs x -> unread"),
      node("Relu x -> h"),
    ],
  });
  sortTopologically(backwards);
  expect(describeNodes(backwards.graph)).toEqual([
    "Relu x -> h",
    "If c -> r",
    "Neg r -> y",
    "Abs x -> unread",
  ]);
  expect([...traverseGraphs(backwards.graph)].slice(1).map(describeNodes)).toEqual([
    ["Add h b -> k", "Neg k -> z"],
    ["Add h b -> k", "Neg k -> z"],
  ]);
  expect(() => buildValueTable(backwards)).not.toThrow();

  const sorted = modelWithIf();
  sortTopologically(sorted);
  expect(describeNodes(sorted.graph)).toEqual(describeNodes(modelWithIf().graph));
});

it("sorts a reversed chain of 50,000 nodes", () => {
  const chain = Array.from({ length: 50_000 }, (_, index) =>
    node(`Neg v${index} -> v${index + 1}`),
  ).toReversed();
  const long = model({ inputs: ["v0: float [1]"], outputs: ["v50000"], nodes: chain });
  sortTopologically(long);
  expect(() => buildValueTable(long)).not.toThrow();
});

it("terminates for nodes that read from each other", () => {
  const cyclic = model({
    inputs: ["x: float [1]"],
    outputs: ["y"],
    nodes: [node("Add x b -> a"), node("Neg a -> b"), node("Neg b -> y")],
  });
  sortTopologically(cyclic);
  expect(() => buildValueTable(cyclic)).toThrow(
    expect.objectContaining({ code: "invalid_model_file" }),
  );
});
