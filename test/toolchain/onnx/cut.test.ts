// Cutting a part out of a model: its halves run one after the other are the whole.
import fc from "fast-check";
import { expect, it } from "vitest";
import { cut } from "../../../src/toolchain/onnx/cut.ts";
import { type Model, readModel, writeModel } from "../../../src/toolchain/onnx/model-file.ts";
import type { NamedTensors } from "../../../src/core/tensor.ts";
import { createNativeRuntime } from "../../../src/runtime/native/native-runtime.ts";
import { anyModel } from "../passes/any-model.ts";
import { madeUpInputs } from "../../../src/toolchain/passes/check.ts";
import { body, floats, graph, model, node } from "./small-model.ts";

const runtime = createNativeRuntime({ intraOpThreads: 1, graphOptimization: "disabled" });

async function run(model: Model, values: NamedTensors): Promise<NamedTensors> {
  const session = await runtime.createSession(writeModel(model));
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
  const [values = {}] = madeUpInputs([
    { name: "x", datatype: "FP32", shape: [-1, 4] },
    { name: "z", datatype: "FP32", shape: [-1, 4] },
  ]);
  await fc.assert(
    fc.asyncProperty(
      anyModel,
      fc.array(fc.nat({ max: 1000 }), { minLength: 1, maxLength: 3 }),
      async ({ model, made }, picks) => {
        const at = [...new Set(picks.map((pick) => made[pick % made.length] ?? ""))];
        const wanted = namesOf(model.graph.output);
        const head = cut(model, { outputs: at });
        const between = await run(head, values);
        const rest = wanted.filter((name) => !at.includes(name));
        const results =
          rest.length === 0
            ? between
            : {
                ...between,
                ...(await run(cut(model, { inputs: at, outputs: rest }), {
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

const sample = () =>
  model({
    inputs: ["x: float [2]", "unused: float [2]", "c: bool []"],
    outputs: ["y: float [2]"],
    constants: [floats("w", [1, 2]), floats("k", [3, 4])],
    nodes: [
      node("Add x w -> h"),
      node("Exp h -> e"),
      node("Identity k -> outer"),
      node("If c -> p", [
        body("then_branch", graph({ outputs: ["s"], nodes: [node("Add e outer -> s")] })),
        body("else_branch", graph({ outputs: ["t"], nodes: [node("Mul e outer -> t")] })),
      ]),
      node("Neg p -> y"),
    ],
    valueInfo: ["e: float [2]"],
  });

it("takes along only what is needed, and what bodies read from outside", () => {
  const head = cut(sample(), { outputs: ["e"] });
  expect([
    namesOf(head.graph.input),
    head.graph.node.map(({ opType }) => opType),
    namesOf(head.graph.initializer),
    namesOf(head.graph.output),
  ]).toEqual([["x"], ["Add", "Exp"], ["w"], ["e"]]);
  const tail = cut(sample(), { inputs: ["e", "h"], outputs: ["y"] });
  expect([
    namesOf(tail.graph.input),
    tail.graph.node.map(({ opType }) => opType),
    namesOf(tail.graph.initializer),
  ]).toEqual([["e", "c"], ["Identity", "If", "Neg"], ["k"]]);
  expect(readModel(writeModel(tail)).graph.input[0]?.type?.value.case).toBe("tensorType");
});

it.each([
  [{ outputs: ["nothing"] }, '"nothing": the graph has no such value'],
  [{ outputs: ["s"] }, '"s": the graph has no such value'],
  [{ outputs: ["x"] }, '"x": no node of the part makes it'],
  [{ inputs: ["e"], outputs: ["e"] }, '"e": no node of the part makes it'],
  [{ outputs: ["p"] }, '"p": nothing tells its type'],
])("refuses %j with the reason", (where, reason) => {
  const untyped = sample();
  for (const one of untyped.graph.node) if (one.opType === "If") one.opType = "Unknown";
  expect(() => cut(untyped, where)).toThrow(
    expect.objectContaining({ code: "not_cuttable", message: expect.stringContaining(reason) }),
  );
});
