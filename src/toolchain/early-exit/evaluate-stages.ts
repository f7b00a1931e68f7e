// What a graph in two stages is worth against the whole: how sure the exit head is and how often it is right, and what the
// way through 8 bits changes. The first stage runs in the edge's runtime, the rest in the region's.

import { type CalibrationParameters, LOGITS_OUTPUT } from "../../cascade/calibration.ts";
import { expectFloat32Tensor, type NamedTensors } from "../../core/tensor.ts";
import { argmax } from "../argmax.ts";
import { selectExitThreshold, type ExitThreshold } from "../calibrate/exit-threshold.ts";
import { fitTemperature } from "../calibrate/logit-scaling.ts";
import { fitOutOfScope } from "../distill/fit-out-of-scope.ts";
import { scoreLogits, type EncodedSample } from "../evaluate/evaluation-set.ts";
import { createLatencyMeter, quantile } from "../evaluate/latency.ts";
import type { RunnerSession, Runner } from "../evaluate/runner.ts";
import { selectInputs } from "../select-inputs.ts";

export interface StageEvaluation {
  /** Of the exit head, on samples in scope. */
  readonly accuracy: number;
  /** Of the whole graph. */
  readonly wholeAccuracy: number;
  /** Of the exit head. What it takes to be out of scope goes on, which `exit` does not count. */
  readonly calibration: CalibrationParameters;
  readonly exit: ExitThreshold;
  /** What comes of going on in 8 bits, against the whole graph. */
  readonly resumed: {
    readonly agreement: number;
    readonly lossPoints: number;
    readonly largestDifference: number;
  };
  /** The same in FP32, on a part of the samples: the cut itself. */
  readonly exact: { readonly agreement: number; readonly largestDifference: number };
  /** Median of one row, in the edge's runtime. */
  readonly p50Ms: number;
}

export interface StagedGraphs {
  readonly first: Uint8Array;
  readonly second: Uint8Array;
  /** The same with the value in FP32 between them. */
  readonly fp32First: Uint8Array;
  readonly fp32Second: Uint8Array;
}

export interface EvaluateStagesOptions {
  readonly runners: Readonly<Record<"edge" | "region", Runner>>;
  readonly samples: readonly EncodedSample[];
  /** The whole graph's logits to the questions. */
  readonly fullGraphLogits: readonly Float32Array[];
  /** The whole graph's word for what is out of scope, if it has one. */
  readonly outOfScopeLabel: string | undefined;
  /** Points of accuracy that the exit may cost. */
  readonly maxLossPoints: number;
  readonly onProgress?: (done: number, of: number) => void;
}

const FP32_SAMPLES = 64;
const TIMED_SAMPLES = 40;

/** @throws session_failed */
export async function evaluateStages(
  graphs: StagedGraphs,
  options: EvaluateStagesOptions,
): Promise<StageEvaluation> {
  const {
    runners,
    samples: questions,
    fullGraphLogits: whole,
    outOfScopeLabel: outOfScope,
    maxLossPoints,
    onProgress = () => {},
  } = options;
  const {
    headLogits: head,
    resumedLogits: resumed,
    p50Ms,
  } = await withSessions(
    runners.edge,
    graphs.first,
    runners.region,
    graphs.second,
    async (first, rest) => {
      const answers = await runBothStages(first, rest, questions, onProgress);
      return { ...answers, p50Ms: await measureMedianMs(first, questions) };
    },
  );
  const exact = await withSessions(
    runners.region,
    graphs.fp32First,
    runners.region,
    graphs.fp32Second,
    (first, rest) => runBothStages(first, rest, questions.slice(0, FP32_SAMPLES)),
  );

  const rows = questions.map(({ label }, position) => ({
    label,
    logits: head[position] ?? new Float32Array(),
  }));
  const temperature = fitTemperature(rows);
  const rule = outOfScope === undefined ? undefined : fitOutOfScope(rows, temperature, outOfScope);
  const { agreement, lossPoints } = scoreLogits(questions, resumed, whole);
  const { accuracy } = scoreLogits(questions, head, whole);
  return {
    accuracy,
    wholeAccuracy: scoreLogits(questions, whole, whole).accuracy,
    calibration: { temperature, ...(rule === undefined ? {} : { outOfScope: rule }) },
    exit: selectExitThreshold(rows, temperature, whole, maxLossPoints),
    resumed: { agreement, lossPoints, largestDifference: largestDifference(resumed, whole) },
    exact: {
      agreement: computeAgreement(exact.resumedLogits, whole),
      largestDifference: largestDifference(exact.resumedLogits, whole),
    },
    p50Ms,
  };
}

async function withSessions<Result>(
  one: Runner,
  first: Uint8Array,
  other: Runner,
  rest: Uint8Array,
  work: (first: RunnerSession, rest: RunnerSession) => Promise<Result>,
): Promise<Result> {
  const opened = await one.open(first);
  try {
    const second = await other.open(rest);
    return await work(opened, second).finally(() => second.close());
  } finally {
    await opened.close();
  }
}

interface StageLogits {
  /** Of the exit head. */
  readonly headLogits: Float32Array[];
  /** Of the rest. */
  readonly resumedLogits: Float32Array[];
}

async function runBothStages(
  first: RunnerSession,
  rest: RunnerSession,
  questions: readonly EncodedSample[],
  onProgress: (done: number, of: number) => void = () => {},
): Promise<StageLogits> {
  const answers: StageLogits = { headLogits: [], resumedLogits: [] };
  for (const [position, { inputs }] of questions.entries()) {
    const made = await first.run(selectInputs(first, inputs));
    answers.headLogits.push(logitsOf(made));
    answers.resumedLogits.push(
      logitsOf(await rest.run(selectInputs(rest, { ...inputs, ...made }))),
    );
    onProgress(position + 1, questions.length);
  }
  return answers;
}

async function measureMedianMs(
  session: RunnerSession,
  questions: readonly EncodedSample[],
): Promise<number> {
  const slice = createLatencyMeter();
  const times: number[] = [];
  for (const { inputs } of questions.slice(0, TIMED_SAMPLES))
    times.push(await slice((runs) => session.measureMeanMs(selectInputs(session, inputs), runs)));
  return quantile(times, 0.5);
}

const logitsOf = (outputs: NamedTensors): Float32Array =>
  expectFloat32Tensor(LOGITS_OUTPUT, outputs[LOGITS_OUTPUT], 2).data;
const computeAgreement = (
  answers: readonly Float32Array[],
  whole: readonly Float32Array[],
): number =>
  answers.filter((row, position) => argmax(row) === argmax(whole[position] ?? new Float32Array()))
    .length / Math.max(1, answers.length);
const largestDifference = (
  answers: readonly Float32Array[],
  whole: readonly Float32Array[],
): number =>
  answers.reduce(
    (most, row, position) =>
      row.reduce(
        (worst, value, index) =>
          Math.max(worst, Math.abs(value - (whole[position]?.[index] ?? Number.NaN))),
        most,
      ),
    0,
  );
