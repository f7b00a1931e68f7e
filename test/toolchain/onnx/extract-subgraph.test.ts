// Tests the extraction of subgraphs: two halves that run one after the other equal the whole.
import fc from "fast-check";
import { expect, it } from "vitest";
import type { NamedTensors } from "../../../src/core/tensor.ts";
import { createNativeRuntime } from "../../../src/runtime/native/native-runtime.ts";
import { extractSubgraph } from "../../../src/toolchain/onnx/extract-subgraph.ts";
import { type Model, parseModel, serializeModel } from "../../../src/toolchain/onnx/model-file.ts";
import { generateInputs } from "../../../src/toolchain/passes/verify-outputs.ts";
import { propertyRuns } from "../../support/property-runs.ts";
import { arbitraryModel } from "../passes/arbitrary-model.ts";
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

it("splits any graph at any values into two halves that compute the whole", async () => {
  const [values = {}] = generateInputs([
    { name: "x", datatype: "FP32", shape: [-1, 4] },
    { name: "z", datatype: "FP32", shape: [-1, 4] },
  ]);
  await fc.assert(
    fc.asyncProperty(
      arbitraryModel,
      fc.array(fc.nat({ max: 1000 }), { minLength: 1, maxLength: 3 }),
      async ({ model, valueNames }, picks) => {
        const cuts = [...new Set(picks.map((pick) => valueNames[pick % valueNames.length] ?? ""))];
        const outputNames = namesOf(model.graph.output);
        const head = extractSubgraph(model, { outputs: cuts });
        const headOutputs = await run(head, values);
        const remaining = outputNames.filter((name) => !cuts.includes(name));
        const results =
          remaining.length === 0
            ? headOutputs
            : {
                ...headOutputs,
                ...(await run(extractSubgraph(model, { inputs: cuts, outputs: remaining }), {
                  ...values,
                  ...headOutputs,
                })),
              };
        const whole = await run(model, values);
        for (const name of outputNames) expect(results[name]).toEqual(whole[name]);
      },
    ),
    { numRuns: propertyRuns(150), seed: 1 },
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

it("includes only required nodes and inputs, including outer values that bodies read", () => {
  const head = extractSubgraph(modelWithUnusedInput(), { outputs: ["e"] });
  expect({
    inputs: namesOf(head.graph.input),
    operators: head.graph.node.map(({ opType }) => opType),
    initializers: namesOf(head.graph.initializer),
    outputs: namesOf(head.graph.output),
  }).toEqual({
    inputs: ["x"],
    operators: ["Add", "Exp"],
    initializers: ["w"],
    outputs: ["e"],
  });
  const tail = extractSubgraph(modelWithUnusedInput(), { inputs: ["e", "h"], outputs: ["y"] });
  expect({
    inputs: namesOf(tail.graph.input),
    operators: tail.graph.node.map(({ opType }) => opType),
    initializers: namesOf(tail.graph.initializer),
  }).toEqual({
    inputs: ["e", "c"],
    operators: ["Identity", "If", "Neg"],
    initializers: ["k"],
  });
  expect(parseModel(serializeModel(tail)).graph.input[0]?.type?.value.case).toBe("tensorType");
});

it.each([
  ["an unknown value", { outputs: ["nothing"] }, /"nothing": .*\bno such value/],
  ["a value of a body", { outputs: ["s"] }, /"s": .*\bno such value/],
  ["an input as output", { outputs: ["x"] }, /"x": no node/],
  ["a boundary value as output", { inputs: ["e"], outputs: ["e"] }, /"e": no node/],
  ["a value without a type", { outputs: ["p"] }, /"p": .*\btype/],
])("rejects %s", (_, bounds, detail) => {
  const untyped = modelWithUnusedInput();
  for (const node of untyped.graph.node) if (node.opType === "If") node.opType = "Unknown";
  expect(() => extractSubgraph(untyped, bounds)).toThrow(
    expect.objectContaining({ code: "not_cuttable", detail: expect.stringMatching(detail) }),
  );
});
