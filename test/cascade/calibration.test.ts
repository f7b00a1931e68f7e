// Calibration: temperatures, vector scaling, isotonic maps and out-of-scope scores.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  applyIsotonic,
  type CalibrationParameters,
  decodePredictions,
  withoutCalibration,
} from "../../src/cascade/calibration.ts";
import type { NamedTensors } from "../../src/core/tensor.ts";

const labels = ["a", "b", "c"];
const logitsOf = (...rows: number[][]): NamedTensors => ({
  logits: { datatype: "FP32", shape: [rows.length, 3], data: Float32Array.from(rows.flat()) },
});
const plain: CalibrationParameters = { temperature: 1 };

describe("decodePredictions", () => {
  it("returns softmax probabilities in descending order", () => {
    const [answer] = decodePredictions(
      logitsOf([0, Math.log(6), Math.log(3)]),
      1,
      labels,
      plain,
      3,
    );
    expect(answer?.label).toBe("b");
    expect(answer?.ranking.map(({ label }) => label)).toEqual(["b", "c", "a"]);
    expect(answer?.ranking.map(({ score }) => score)).toEqual(
      [0.6, 0.3, 0.1].map((score) => expect.closeTo(score, 6)),
    );
  });

  it("divides logits by the temperature", () => {
    const [hot] = decodePredictions(logitsOf([0, 2, 0]), 1, labels, { temperature: 2 }, 1);
    const [cold] = decodePredictions(logitsOf([0, 1, 0]), 1, labels, plain, 1);
    expect(hot?.confidence).toBeCloseTo(cold?.confidence ?? 0, 6);
  });

  it("scales and shifts logits by the vectors, which may change the top label", () => {
    const vector = { weights: [1, 1, 2], biases: [0, 0.5, 0] };
    const [answer] = decodePredictions(
      logitsOf([1, 1, 1]),
      1,
      labels,
      { temperature: 1, vector },
      3,
    );
    const [same] = decodePredictions(logitsOf([1, 1.5, 2]), 1, labels, plain, 3);
    expect(answer).toEqual({
      ...same,
      ranking: same?.ranking.map(({ label, score }) => ({
        label,
        score: expect.closeTo(score, 6),
      })),
      confidence: expect.closeTo(same?.confidence ?? 0, 6),
    });
    expect(answer?.label).toBe("c");
    expect(() =>
      decodePredictions(
        logitsOf([1, 1, 1]),
        1,
        labels,
        { temperature: 1, vector: { weights: [1], biases: [0] } },
        1,
      ),
    ).toThrow(expect.objectContaining({ code: "session_failed" }));
  });
});

describe("decodePredictions with an isotonic map", () => {
  it("maps the first confidence by the isotonic map, and keeps the order of the rest", () => {
    const isotonic = { confidence: [0.2, 0.6], calibrated: [0.1, 0.3] };
    const [answer] = decodePredictions(
      logitsOf([0, Math.log(6), Math.log(3)]),
      1,
      labels,
      { temperature: 1, isotonic },
      3,
    ); // 0.6, 0.3, 0.1
    expect(answer?.confidence).toBeCloseTo(0.3, 6);
    expect(answer?.ranking).toEqual(
      [
        ["b", 0.3],
        ["c", 0.3],
        ["a", 0.175],
      ].map(([label, score]) => ({ label, score: expect.closeTo(Number(score), 6) })),
    );
  });
});

describe("decodePredictions with an out-of-scope rule", () => {
  it("scores out-of-scope inputs at the rule's own temperature", () => {
    const outOfScope = { label: "oos", score: { kind: "energy" }, threshold: 1, scale: 2 } as const;
    const before: CalibrationParameters = { temperature: 3, outOfScope };
    const after: CalibrationParameters = {
      temperature: 0.5,
      outOfScope: { ...outOfScope, temperature: 3 },
    };
    const verdictOf = (calibration: CalibrationParameters) =>
      decodePredictions(logitsOf([1, 0, 0]), 1, labels, calibration, 4)[0]?.ranking.find(
        ({ label }) => label === "oos",
      );
    expect(verdictOf(after)).toEqual(verdictOf(before));
    expect(
      withoutCalibration({ ...before, isotonic: { confidence: [1], calibrated: [0.5] } }),
    ).toEqual({
      temperature: 1,
      outOfScope: { ...outOfScope, temperature: 3 },
    });
  });

  it("returns an out-of-scope verdict below the threshold only", () => {
    const calibration: CalibrationParameters = {
      temperature: 1,
      outOfScope: { label: "oos", score: { kind: "maxLogit" }, threshold: 3, scale: 2 },
    };
    const [low, high] = decodePredictions(
      logitsOf([2, 0, 0], [5, 0, 0]),
      2,
      labels,
      calibration,
      3,
    );
    expect(low).toMatchObject({
      label: "oos",
      outOfScope: true,
      confidence: expect.closeTo(1 / (1 + Math.exp(-2)), 6),
    });
    expect(high).toMatchObject({ label: "a", outOfScope: false });
    expect(high?.ranking.find(({ label }) => label === "oos")?.score).toBeCloseTo(
      1 / (1 + Math.exp(4)),
      6,
    );
  });
});

describe("decodePredictions with an out-of-scope output", () => {
  it("reads the out-of-scope score from an output", () => {
    const calibration: CalibrationParameters = {
      temperature: 1,
      outOfScope: {
        label: "oos",
        score: { kind: "output", output: "distance" },
        threshold: 1,
        scale: 4,
      },
    };
    const outputs: NamedTensors = {
      ...logitsOf([9, 0, 0], [9, 0, 0]),
      distance: { datatype: "FP32", shape: [2], data: new Float32Array([2, 0.5]) },
    };
    expect(
      decodePredictions(outputs, 2, labels, calibration, 1).map((answer) => answer.label),
    ).toEqual(["oos", "a"]);
  });
});

describe("decodePredictions for any logits", () => {
  it("rejects logits of another shape, and logits that are not finite", () => {
    expect(() => decodePredictions(logitsOf([1, 2, 3]), 1, ["a", "b"], plain, 1)).toThrow(
      expect.objectContaining({
        code: "session_failed",
        detail: expect.stringContaining("[1, 2]"),
      }),
    );
    expect(() => decodePredictions(logitsOf([Number.NaN, 2, 3]), 1, labels, plain, 1)).toThrow(
      expect.objectContaining({ code: "session_failed" }),
    );
  });

  it("keeps the top label at every temperature and under every isotonic map (property)", () => {
    const row = fc.array(
      fc.integer({ min: -120, max: 120 }).map((quarters) => quarters / 4),
      { minLength: 3, maxLength: 3 },
    );
    const share = fc.double({ min: 0, max: 1, noNaN: true });
    const points = fc.array(fc.tuple(share, share), { minLength: 1, maxLength: 8 });
    fc.assert(
      fc.property(
        row,
        fc.double({ min: 0.1, max: 10, noNaN: true }),
        points,
        (logits, temperature, ends) => {
          const isotonic = {
            confidence: [...new Set(ends.map(([x]) => x))].toSorted((a, b) => a - b),
            calibrated: ends.map(([, y]) => y).toSorted((a, b) => a - b),
          };
          const [own] = decodePredictions(logitsOf(logits), 1, labels, plain, 3);
          const [answer] = decodePredictions(
            logitsOf(logits),
            1,
            labels,
            { temperature, isotonic },
            3,
          );
          expect(logits[labels.indexOf(answer?.label ?? "")]).toBe(Math.max(...logits));
          expect(own?.label).toBe(answer?.label);
          const scores = answer?.ranking.map(({ score }) => score) ?? [];
          for (const score of scores) expect(score >= 0 && score <= 1, String(scores)).toBe(true);
          expect(scores).toEqual(scores.toSorted((a, b) => b - a));
          expect(scores.reduce((sum, score) => sum + score, 0)).toBeLessThanOrEqual(1 + 1e-9);
        },
      ),
      // A confidence that is 1 except for its rounding error leaves less probability than the others have.
      {
        examples: [
          [
            [0, -0.25, 2.75],
            0.1456444383576413,
            [
              [0, 0.4587803422748305],
              [5e-324, 0],
            ],
          ],
        ],
      },
    );
  });
});

describe("decodePredictions for any out-of-scope rule", () => {
  it("ranks probabilities with the answer first (property)", () => {
    const logit = fc.float({ min: -50, max: 50, noNaN: true });
    const score = fc.constantFrom(
      { kind: "maxProbability" } as const,
      { kind: "maxLogit" } as const,
      { kind: "energy" } as const,
    );
    fc.assert(
      fc.property(
        fc.tuple(logit, logit, logit),
        fc.double({ min: 0.1, max: 10, noNaN: true }),
        score,
        fc.integer({ min: 1, max: 4 }),
        (row, temperature, kind, topK) => {
          const calibration: CalibrationParameters = {
            temperature,
            outOfScope: { label: "oos", score: kind, threshold: 0.5, scale: 3 },
          };
          const [answer] = decodePredictions(logitsOf([...row]), 1, labels, calibration, topK);
          const scores = answer?.ranking.map((ranked) => ranked.score) ?? [];
          expect(scores).toHaveLength(topK);
          expect(answer?.ranking[0]).toEqual({ label: answer?.label, score: answer?.confidence });
          expect(scores.every((value) => value >= 0 && value <= 1)).toBe(true);
          expect(scores.reduce((sum, value) => sum + value, 0)).toBeLessThanOrEqual(1 + 1e-9);
        },
      ),
    );
  });
});

describe("applyIsotonic", () => {
  const map = { confidence: [0.2, 0.4, 1], calibrated: [0.1, 0.5, 0.9] };

  it.each([
    [0, 0.1],
    [0.2, 0.1],
    [0.3, 0.3],
    [0.4, 0.5],
    [0.7, 0.7],
    [1, 0.9],
  ])("maps %f to %f", (value, expected) => {
    expect(applyIsotonic(map, value)).toBeCloseTo(expected, 12);
  });

  it("keeps NaN", () => {
    expect(applyIsotonic(map, Number.NaN)).toBeNaN();
  });
});
