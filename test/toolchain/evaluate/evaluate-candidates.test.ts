// Candidates for a tier, judged in onnxruntime-node: what is refused, and with which figures.
import { describe, expect, it } from "vitest";
import type { EncodedSample } from "../../../src/toolchain/evaluate/evaluation-set.ts";
import { evaluateCandidates } from "../../../src/toolchain/evaluate/evaluate-candidates.ts";
import { createNodeRunner } from "../../../src/toolchain/evaluate/node-runner.ts";
import type { RunnerSession, Runner } from "../../../src/toolchain/evaluate/runner.ts";
import { encodeModel } from "../../bench/lib/onnx-writer.ts";

/** Logits are x times the matrix. */
function classifier(matrix: readonly number[]): Uint8Array {
  return encodeModel({
    name: "classifier",
    opset: 17,
    inputs: [{ name: "x", datatype: "FP32", shape: ["batch", 2] }],
    outputs: [{ name: "logits", datatype: "FP32", shape: ["batch", 2] }],
    nodes: [{ op: "MatMul", inputs: ["x", "w"], outputs: ["logits"] }],
    initializers: { w: { datatype: "FP32", shape: [2, 2], data: Float32Array.from(matrix) } },
  });
}

const question = (x: readonly [number, number], label: number): EncodedSample => ({
  inputs: { x: { datatype: "FP32", shape: [1, 2], data: Float32Array.from(x) } },
  label,
});
/** The larger of the two numbers tells the label; the last is out of scope. */
const questions = [
  question([1, 0], 0),
  question([0, 1], 1),
  question([2, 1.9], 0),
  question([0.1, 0.3], 1),
  question([5, 1], -1),
];
const reference = { name: "fp32", graph: classifier([1, 0, 0, 1]) };
const bounds = { maxLossPoints: 0.3 };

describe("evaluateCandidates", () => {
  it("accepts what answers the same, with its figures", async () => {
    const [first, same] = await evaluateCandidates(
      [reference, { name: "scaled", graph: classifier([2, 0, 0, 2]) }],
      questions,
      { runner: createNodeRunner(), bounds, rounds: 3 },
    );
    expect(first).toMatchObject({
      name: "fp32",
      refused: [],
      measured: { accuracy: 1, agreement: 1, lossPoints: 0, sqnrDb: Number.POSITIVE_INFINITY },
    });
    expect(same).toMatchObject({
      refused: [],
      measured: { accuracy: 1, lossPoints: 0, lost: 0, won: 0, sqnrDb: 0 },
    }); // the difference is as large as the logits
    expect(same?.measured?.latency["node"]).toMatchObject({
      rounds: 3,
      p50Ms: expect.any(Number),
      ratio: expect.any(Number),
    });
    expect(same?.bytes).toBe(reference.graph.byteLength);
  });

  it("refuses what loses more than is allowed, and says how much", async () => {
    const [, biased] = await evaluateCandidates(
      [reference, { name: "biased", graph: classifier([1, 0, 0, 1.2]) }],
      questions,
      { runner: createNodeRunner(), bounds, rounds: 1 },
    );
    expect(biased).toMatchObject({
      refused: ["it loses 25.00 points, 0.3 are allowed"],
      measured: { accuracy: 0.75, lost: 1, won: 0, agreement: 0.8 },
    });
  });

  it("refuses what is too large", async () => {
    const [, large] = await evaluateCandidates(
      [reference, { name: "large", graph: reference.graph }],
      questions,
      { runner: createNodeRunner(), bounds: { ...bounds, maxBytes: 10 }, rounds: 1 },
    );
    expect(large?.refused).toEqual([`it has ${reference.graph.byteLength} bytes, 10 are allowed`]);
  });

  it("refuses what is slower than its bound, by the median of rounds in which both ran", async () => {
    const runner = runnerWithTimes(
      new Map([
        [reference.graph, [2, 4, 3]],
        [slow, [4, 8, 6]],
      ]),
    );
    const [, slower] = await evaluateCandidates(
      [reference, { name: "slow", graph: slow }],
      questions,
      {
        runner,
        bounds: { ...bounds, maxLatencyRatio: 1 },
        rounds: 3,
      },
    );
    expect(slower).toMatchObject({
      refused: ["it takes 2.00 times as long in node, 1 are allowed"],
      measured: { latency: { node: { p50Ms: 6, ratio: 2 } } },
    });
  });

  it("goes on after one that does not run, and says why it does not", async () => {
    const judgements = await evaluateCandidates(
      [
        reference,
        { name: "broken", graph: Uint8Array.of(1, 2, 3) },
        { name: "same", graph: reference.graph },
      ],
      questions,
      { runner: createNodeRunner(), bounds, rounds: 1 },
    );
    expect(judgements.map(({ refused }) => refused.length)).toEqual([0, 1, 0]);
    expect(judgements[1]?.refused[0]).toMatch(/^it does not run in node: /);
    expect(judgements[1]).not.toHaveProperty("measured");
  });

  it("refuses logits that are not finite", async () => {
    const [, infinite] = await evaluateCandidates(
      [reference, { name: "infinite", graph: classifier([3e38, 3e38, 3e38, 3e38]) }],
      questions,
      { runner: createNodeRunner(), bounds, rounds: 1 },
    );
    expect(infinite?.refused[0]).toContain("not all finite");
  });

  it("fails where the reference itself does not run", async () => {
    await expect(
      evaluateCandidates([{ name: "broken", graph: Uint8Array.of(1) }], questions, {
        runner: createNodeRunner(),
        bounds,
      }),
    ).rejects.toMatchObject({ code: "session_failed" });
  });
});

const slow = classifier([1, 0, 0, 1]);

/** onnxruntime-node's answers with times of the test's own; the warm-up's are left out. */
function runnerWithTimes(times: ReadonlyMap<Uint8Array, readonly number[]>): Runner {
  const real = createNodeRunner();
  return {
    ...real,
    async open(graph): Promise<RunnerSession> {
      const session = await real.open(graph);
      let calls = -2;
      return {
        ...session,
        measureMeanMs: async () => times.get(graph)?.[Math.max(0, calls++)] ?? 0,
      };
    },
  };
}
