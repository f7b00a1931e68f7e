import { describe, expect, it } from "vitest";
import type { Question } from "../../../src/build/judge/exam.ts";
import { chooseExit, fitTemperature } from "../../../src/build/techniques/calibrate.ts";
import { createRandom } from "../../bench/lib/random.ts";

const question = (label: number): Question => ({ inputs: {}, label });

/** Labels drawn with the probabilities that the logits say at this temperature. */
function drawn(temperature: number, count: number): { questions: Question[]; answers: Float32Array[] } {
  const { next } = createRandom(3);
  const answers = Array.from({ length: count }, () => Float32Array.from({ length: 4 }, () => 6 * next()));
  const questions = answers.map((row) => {
    const weights = Array.from(row, (logit) => Math.exp(logit / temperature));
    let left = next() * weights.reduce((sum, one) => sum + one, 0);
    return question(weights.findIndex((weight) => (left -= weight) < 0));
  });
  return { questions, answers };
}

describe("fitTemperature", () => {
  it.each([0.5, 1, 3])("finds the temperature %f that labels were drawn with", (temperature) => {
    const { questions, answers } = drawn(temperature, 4_000);
    expect(fitTemperature(questions, answers) / temperature).toBeCloseTo(1, 0.9);
  });

  it("leaves out what has no right label", () => {
    const { questions, answers } = drawn(1, 500);
    const noise = answers.map((row) => row.map((one) => -one));
    expect(fitTemperature([...questions, ...questions.map(() => question(-1))], [...answers, ...noise])).toBe(fitTemperature(questions, answers));
  });
});

describe("chooseExit", () => {
  const row = (...logits: number[]) => Float32Array.from(logits);
  /** Sure and right twice, less sure and wrong, unsure and right. */
  const questions = [question(0), question(0), question(1), question(1)];
  const answers = [row(9, 0), row(8, 0), row(3, 0), row(0, 1)];
  const perfect = [row(1, 0), row(1, 0), row(0, 1), row(0, 1)];

  it("takes as much as the bound allows", () => {
    expect(chooseExit(questions, answers, 1, perfect, 0)).toMatchObject({ share: 0.5, lossPoints: -0 });
    expect(chooseExit(questions, answers, 1, perfect, 25)).toMatchObject({ share: 1, lossPoints: 25 });
  });

  it("counts what the first tier gets right where the next does not", () => {
    const alwaysWrong = questions.map(({ label }) => (label === 0 ? row(0, 1) : row(1, 0)));
    expect(chooseExit(questions, answers, 1, alwaysWrong, 0)).toMatchObject({ share: 1, lossPoints: -75 });
  });

  it("gives a confidence that all whom it counts reach", () => {
    const { confidence } = chooseExit(questions, answers, 1, perfect, 0);
    const ofSecond = 1 / (1 + Math.exp(-8));
    expect(confidence).toBeLessThanOrEqual(ofSecond);
    expect(confidence).toBeGreaterThan(1 / (1 + Math.exp(-3)));
  });

  it("takes nothing where the first answers are worse than the bound", () => {
    expect(chooseExit([question(1)], [row(5, 0)], 1, [row(0, 5)], 0)).toEqual({ confidence: 1, share: 0, lossPoints: 0 });
  });
});
