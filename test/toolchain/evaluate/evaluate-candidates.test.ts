// Evaluation of candidates in onnxruntime-node: which are rejected, and with which figures.
import { describe, expect, it } from "vitest";
import { evaluateCandidates } from "../../../src/toolchain/evaluate/evaluate-candidates.ts";
import type { EncodedSample } from "../../../src/toolchain/evaluate/evaluation-set.ts";
import { createNodeRunner } from "../../../src/toolchain/evaluate/node-runner.ts";
import type { RunnerSession, Runner } from "../../../src/toolchain/evaluate/runner.ts";
import { encodeModel } from "../../bench/lib/onnx-writer.ts";

/** Builds a graph whose logits are x times the matrix. */
function buildClassifier(matrix: readonly number[]): Uint8Array {
  return encodeModel({
    name: "classifier",
    opset: 17,
    inputs: [{ name: "x", datatype: "FP32", shape: ["batch", 2] }],
    outputs: [{ name: "logits", datatype: "FP32", shape: ["batch", 2] }],
    nodes: [{ op: "MatMul", inputs: ["x", "w"], outputs: ["logits"] }],
    initializers: { w: { datatype: "FP32", shape: [2, 2], data: Float32Array.from(matrix) } },
  });
}

const sample = (x: readonly [number, number], label: number): EncodedSample => ({
  inputs: { x: { datatype: "FP32", shape: [1, 2], data: Float32Array.from(x) } },
  label,
});
/** The position of the larger number is the label; the last sample is out of scope. */
const samples = [
  sample([1, 0], 0),
  sample([0, 1], 1),
  sample([2, 1.9], 0),
  sample([0.1, 0.3], 1),
  sample([5, 1], -1),
];
const reference = { name: "fp32", graph: buildClassifier([1, 0, 0, 1]) };
const slow = buildClassifier([1, 0, 0, 1]);
const bounds = { maxLossPoints: 0.3 };

describe("evaluateCandidates", () => {
  it("accepts a candidate with the same answers, with its figures", async () => {
    const [first, same] = await evaluateCandidates(
      [reference, { name: "scaled", graph: buildClassifier([2, 0, 0, 2]) }],
      samples,
      { runner: createNodeRunner(), bounds, rounds: 3 },
    );
    expect(first).toMatchObject({
      name: "fp32",
      refused: [],
      measured: { accuracy: 1, agreement: 1, lossPoints: 0, sqnrDb: Number.POSITIVE_INFINITY },
    });
    // The signal-to-noise ratio is 0 dB, because the difference is as large as the logits.
    expect(same).toMatchObject({
      refused: [],
      measured: { accuracy: 1, lossPoints: 0, lost: 0, won: 0, sqnrDb: 0 },
    });
    expect(same?.measured?.latency["node"]).toMatchObject({
      rounds: 3,
      p50Ms: expect.any(Number),
      ratio: expect.any(Number),
    });
    expect(same?.bytes).toBe(reference.graph.byteLength);
  });
});

describe("evaluateCandidates with bounds", () => {
  it("rejects a candidate that loses more accuracy than its bound, with both figures", async () => {
    const [, biased] = await evaluateCandidates(
      [reference, { name: "biased", graph: buildClassifier([1, 0, 0, 1.2]) }],
      samples,
      { runner: createNodeRunner(), bounds, rounds: 1 },
    );
    expect(biased).toMatchObject({
      refused: [expect.stringMatching(/25\.00 points.*0\.3/)],
      measured: { accuracy: 0.75, lost: 1, won: 0, agreement: 0.8 },
    });
  });

  it("rejects a candidate that is larger than its bound", async () => {
    const [, large] = await evaluateCandidates(
      [reference, { name: "large", graph: reference.graph }],
      samples,
      { runner: createNodeRunner(), bounds: { ...bounds, maxBytes: 10 }, rounds: 1 },
    );
    expect(large?.refused).toEqual([
      expect.stringMatching(new RegExp(`${reference.graph.byteLength} bytes.*10`)),
    ]);
  });

  it("rejects a candidate that is slower than its bound, by the median ratio of the rounds", async () => {
    const runner = createRunnerWithTimes(
      new Map([
        [reference.graph, [2, 4, 3]],
        [slow, [4, 8, 6]],
      ]),
    );
    const [, slower] = await evaluateCandidates(
      [reference, { name: "slow", graph: slow }],
      samples,
      {
        runner,
        bounds: { ...bounds, maxLatencyRatio: 1 },
        rounds: 3,
      },
    );
    expect(slower).toMatchObject({
      refused: [expect.stringMatching(/2\.00 .*node.*1/)],
      measured: { latency: { node: { p50Ms: 6, ratio: 2 } } },
    });
  });
});

describe("evaluateCandidates on failures", () => {
  it("continues after a candidate that does not run, and rejects it with the reason", async () => {
    const evaluations = await evaluateCandidates(
      [
        reference,
        { name: "broken", graph: Uint8Array.of(1, 2, 3) },
        { name: "same", graph: reference.graph },
      ],
      samples,
      { runner: createNodeRunner(), bounds, rounds: 1 },
    );
    expect(evaluations.map(({ refused }) => refused.length)).toEqual([0, 1, 0]);
    expect(evaluations[1]?.refused[0]).toMatch(/node: ./);
    expect(evaluations[1]).not.toHaveProperty("measured");
  });

  it("rejects a candidate whose logits are not finite", async () => {
    const [, infinite] = await evaluateCandidates(
      [reference, { name: "infinite", graph: buildClassifier([3e38, 3e38, 3e38, 3e38]) }],
      samples,
      { runner: createNodeRunner(), bounds, rounds: 1 },
    );
    expect(infinite?.refused).toHaveLength(1);
    expect(infinite).not.toHaveProperty("measured");
  });

  it("fails if the reference does not run", async () => {
    await expect(
      evaluateCandidates([{ name: "broken", graph: Uint8Array.of(1) }], samples, {
        runner: createNodeRunner(),
        bounds,
      }),
    ).rejects.toMatchObject({ code: "session_failed" });
  });
});

/** Runs onnxruntime-node with given times; the warm-up measurements do not consume them. */
function createRunnerWithTimes(times: ReadonlyMap<Uint8Array, readonly number[]>): Runner {
  const nodeRunner = createNodeRunner();
  return {
    ...nodeRunner,
    async open(graph): Promise<RunnerSession> {
      const session = await nodeRunner.open(graph);
      let calls = -2;
      return {
        ...session,
        measureMeanMs: async () => times.get(graph)?.[Math.max(0, calls++)] ?? 0,
      };
    },
  };
}
