// Cutting a part out of a model: its halves run one after the other are the whole.
import fc from "fast-check";
import { expect, it } from "vitest";
import { extractSubgraph } from "../../../src/toolchain/onnx/extract-subgraph.ts";
import { type Model, parseModel, serializeModel } from "../../../src/toolchain/onnx/model-file.ts";
import type { NamedTensors } from "../../../src/core/tensor.ts";
import { createNativeRuntime } from "../../../src/runtime/native/native-runtime.ts";
import { arbitraryModel } from "../passes/arbitrary-model.ts";
import { generateInputs } from "../../../src/toolchain/passes/verify-outputs.ts";
import { subgraphAttribute, floatTensor, graph, model, node } from "./model-builders.ts";

const runtime = createNativeRuntime({ intraOpThreads: 1, graphOptimization: "disabled" });

async function run(model: Model, values: NamedTensors): Promise<NamedTensors> {
  const session = await runtime.createSession(serializeModel(model));
  const inputs = Object.fromEntries(
    session.inputs
      .map(({ name }) => [name, values[name]])
      .filter((entry): entry is [string, NamedTensors[string]] => entry[1] !== undefined),
  );
  const outputs = await session.run(inputs);
  await session.dispose();
  return outputs;
}

const namesOf = (list: readonly { readonly name: string }[]) => list.map(({ name }) => name);

it("gives two halves that are the whole, for any graph and any values to cut at", async () => {
  const [values = {}] = generateInputs([
    { name: "x", datatype: "FP32", shape: [-1, 4] },
    { name: "z", datatype: "FP32", shape: [-1, 4] },
  ]);
  await fc.assert(
    fc.asyncProperty(
      arbitraryModel,
      fc.array(fc.nat({ max: 1000 }), { minLength: 1, maxLength: 3 }),
      async ({ model, valueNames: made }, picks) => {
        const at = [...new Set(picks.map((pick) => made[pick % made.length] ?? ""))];
        const wanted = namesOf(model.graph.output);
        const head = extractSubgraph(model, { outputs: at });
        const between = await run(head, values);
        const rest = wanted.filter((name) => !at.includes(name));
        const results =
          rest.length === 0
            ? between
            : {
                ...between,
                ...(await run(extractSubgraph(model, { inputs: at, outputs: rest }), {
                  ...values,
                  ...between,
                })),
              };
        const whole = await run(model, values);
        for (const name of wanted) expect(results[name]).toEqual(whole[name]);
      },
    ),
    { numRuns: 150, seed: 1 },
  );
});

const modelWithUnusedInput = () =>
  model({
    inputs: ["x: float [2]", "unused: float [2]", "c: bool []"],
    outputs: ["y: float [2]"],
    constants: [floatTensor("w", [1, 2]), floatTensor("k", [3, 4])],
    nodes: [
      node("Add x w -> h"),
      node("Exp h -> e"),
      node("Identity k -> outer"),
      node("If c -> p", [
        subgraphAttribute(
          "then_branch",
          graph({ outputs: ["s"], nodes: [node("Add e outer -> s")] }),
        ),
        subgraphAttribute(
          "else_branch",
          graph({ outputs: ["t"], nodes: [node("Mul e outer -> t")] }),
        ),
      ]),
      node("Neg p -> y"),
    ],
    valueInfo: ["e: float [2]"],
  });

it("takes along only what is needed, and what bodies read from outside", () => {
  const head = extractSubgraph(modelWithUnusedInput(), { outputs: ["e"] });
  expect([
    namesOf(head.graph.input),
    head.graph.node.map(({ opType }) => opType),
    namesOf(head.graph.initializer),
    namesOf(head.graph.output),
  ]).toEqual([["x"], ["Add", "Exp"], ["w"], ["e"]]);
  const tail = extractSubgraph(modelWithUnusedInput(), { inputs: ["e", "h"], outputs: ["y"] });
  expect([
    namesOf(tail.graph.input),
    tail.graph.node.map(({ opType }) => opType),
    namesOf(tail.graph.initializer),
  ]).toEqual([["e", "c"], ["Identity", "If", "Neg"], ["k"]]);
  expect(parseModel(serializeModel(tail)).graph.input[0]?.type?.value.case).toBe("tensorType");
});

it.each([
  [{ outputs: ["nothing"] }, '"nothing": the graph has no such value'],
  [{ outputs: ["s"] }, '"s": the graph has no such value'],
  [{ outputs: ["x"] }, '"x": no node of the part makes it'],
  [{ inputs: ["e"], outputs: ["e"] }, '"e": no node of the part makes it'],
  [{ outputs: ["p"] }, '"p": nothing tells its type'],
])("refuses %j with the reason", (where, reason) => {
  const untyped = modelWithUnusedInput();
  for (const one of untyped.graph.node) if (one.opType === "If") one.opType = "Unknown";
  expect(() => extractSubgraph(untyped, where)).toThrow(
    expect.objectContaining({ code: "not_cuttable", message: expect.stringContaining(reason) }),
  );
});
