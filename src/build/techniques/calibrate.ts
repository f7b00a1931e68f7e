// Makes a tier's confidence fit its accuracy, and says from which confidence on its answers are taken.

import { argmax } from "../argmax.ts";
import type { Question } from "../judge/exam.ts";

const GOLDEN = (Math.sqrt(5) - 1) / 2;
const LOG_TEMPERATURES: readonly [number, number] = [Math.log(0.05), Math.log(20)];
const ITERATIONS = 40;

/**
 * The temperature with the least negative log-likelihood: Guo et al. 2017, "On Calibration of Modern Neural Networks".
 * @param answers logits, one row per question
 */
export function fitTemperature(questions: readonly Question[], answers: readonly Float32Array[]): number {
  const labelled = [...questions.entries()].filter(([, { label }]) => label >= 0);
  const loss = (logTemperature: number) => {
    const temperature = Math.exp(logTemperature);
    return labelled.reduce((sum, [position, { label }]) => sum - logProbability(answers[position] ?? new Float32Array(), label, temperature), 0);
  };
  let [low, high] = LOG_TEMPERATURES; // the loss has one minimum in the inverse temperature, and so in its logarithm
  for (let iteration = 0; iteration < ITERATIONS; iteration++) {
    const [left, right] = [high - GOLDEN * (high - low), low + GOLDEN * (high - low)];
    if (loss(left) < loss(right)) high = right;
    else low = left;
  }
  return Number(Math.exp((low + high) / 2).toPrecision(6));
}

export interface ExitPoint {
  readonly confidence: number;
  /** Of the samples that the tier answers at it. */
  readonly share: number;
  /** Points of accuracy that the two tiers together lose against the next alone. */
  readonly lossPoints: number;
}

/** The lowest confidence at which so many points at most are lost: the tier answers as much as the bound allows. */
export function chooseExit(questions: readonly Question[], answers: readonly Float32Array[], temperature: number, next: readonly Float32Array[], maxLossPoints: number): ExitPoint {
  const rows = [...questions.entries()]
    .filter(([, { label }]) => label >= 0)
    .map(([position, { label }]) => {
      const own = answers[position] ?? new Float32Array();
      const best = argmax(own);
      return { confidence: Math.exp(logProbability(own, best, temperature)), gain: Number(best === label) - Number(argmax(next[position] ?? new Float32Array()) === label) };
    })
    .toSorted((a, b) => b.confidence - a.confidence);
  let chosen: ExitPoint = { confidence: 1, share: 0, lossPoints: 0 };
  let gain = 0;
  rows.forEach((row, position) => {
    gain += row.gain;
    const lossPoints = (-100 * gain) / rows.length;
    const isLastOfEquals = rows[position + 1]?.confidence !== row.confidence;
    if (isLastOfEquals && lossPoints <= maxLossPoints) chosen = { confidence: Math.floor(row.confidence * 1e6) / 1e6, share: (position + 1) / rows.length, lossPoints };
  });
  return chosen;
}

function logProbability(logits: Float32Array, label: number, temperature: number): number {
  const largest = logits.reduce((most, one) => Math.max(most, one), Number.NEGATIVE_INFINITY);
  const sum = logits.reduce((total, one) => total + Math.exp((one - largest) / temperature), 0);
  return ((logits[label] ?? Number.NEGATIVE_INFINITY) - largest) / temperature - Math.log(sum);
}
