// What a graph in two stages is worth against the whole: how sure the exit head is and how often it is right, and what the
// way through 8 bits changes. The first stage runs in the edge's runtime, the rest in the region's.

import { type CalibrationParameters, LOGITS } from "../../cascade/calibration.ts";
import { asFloat32, type NamedTensors } from "../../core/tensor.ts";
import { argmax } from "../argmax.ts";
import { chooseExit, type ExitPoint } from "../calibrate/exit-point.ts";
import { fitTemperature } from "../calibrate/scaling.ts";
import { fitOutOfScope } from "../distil/out-of-scope.ts";
import { mark, type Question } from "../judge/exam.ts";
import { createSlices, quantile } from "../judge/latency.ts";
import type { JudgedSession, Runner } from "../judge/runner.ts";
import { takenInputs } from "../taken-inputs.ts";

export interface StageJudgement {
  /** Of the exit head, on samples in scope. */
  readonly accuracy: number;
  /** Of the whole graph. */
  readonly wholeAccuracy: number;
  /** Of the exit head. What it takes to be out of scope goes on, which `exit` does not count. */
  readonly calibration: CalibrationParameters;
  readonly exit: ExitPoint;
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
  readonly rest: Uint8Array;
  /** The same with the value in FP32 between them. */
  readonly exactFirst: Uint8Array;
  readonly exactRest: Uint8Array;
}

export interface JudgeStagesOptions {
  readonly runners: Readonly<Record<"edge" | "region", Runner>>;
  readonly questions: readonly Question[];
  /** The whole graph's logits to the questions. */
  readonly whole: readonly Float32Array[];
  /** The whole graph's word for what is out of scope, if it has one. */
  readonly outOfScope: string | undefined;
  /** Points of accuracy that the exit may cost. */
  readonly maxLossPoints: number;
  readonly onProgress?: (done: number, of: number) => void;
}

const EXACT_SAMPLES = 64;
const TIMED_SAMPLES = 40;

/** @throws session_failed */
export async function judgeStages(
  graphs: StagedGraphs,
  options: JudgeStagesOptions,
): Promise<StageJudgement> {
  const { runners, questions, whole, outOfScope, maxLossPoints, onProgress = () => {} } = options;
  const { head, resumed, p50Ms } = await withSessions(
    runners.edge,
    graphs.first,
    runners.region,
    graphs.rest,
    async (first, rest) => {
      const answers = await throughBoth(first, rest, questions, onProgress);
      return { ...answers, p50Ms: await medianMs(first, questions) };
    },
  );
  const exact = await withSessions(
    runners.region,
    graphs.exactFirst,
    runners.region,
    graphs.exactRest,
    (first, rest) => throughBoth(first, rest, questions.slice(0, EXACT_SAMPLES)),
  );

  const rows = questions.map(({ label }, position) => ({
    label,
    logits: head[position] ?? new Float32Array(),
  }));
  const temperature = fitTemperature(rows);
  const rule = outOfScope === undefined ? undefined : fitOutOfScope(rows, temperature, outOfScope);
  const { agreement, lossPoints } = mark(questions, resumed, whole);
  const { accuracy } = mark(questions, head, whole);
  return {
    accuracy,
    wholeAccuracy: mark(questions, whole, whole).accuracy,
    calibration: { temperature, ...(rule === undefined ? {} : { outOfScope: rule }) },
    exit: chooseExit(rows, temperature, whole, maxLossPoints),
    resumed: { agreement, lossPoints, largestDifference: largestDifference(resumed, whole) },
    exact: {
      agreement: agreementOf(exact.resumed, whole),
      largestDifference: largestDifference(exact.resumed, whole),
    },
    p50Ms,
  };
}

async function withSessions<Result>(
  one: Runner,
  first: Uint8Array,
  other: Runner,
  rest: Uint8Array,
  work: (first: JudgedSession, rest: JudgedSession) => Promise<Result>,
): Promise<Result> {
  const opened = await one.open(first);
  try {
    const second = await other.open(rest);
    return await work(opened, second).finally(() => second.close());
  } finally {
    await opened.close();
  }
}

interface StagedAnswers {
  /** Of the exit head. */
  readonly head: Float32Array[];
  /** Of the rest. */
  readonly resumed: Float32Array[];
}

async function throughBoth(
  first: JudgedSession,
  rest: JudgedSession,
  questions: readonly Question[],
  onProgress: (done: number, of: number) => void = () => {},
): Promise<StagedAnswers> {
  const answers: StagedAnswers = { head: [], resumed: [] };
  for (const [position, { inputs }] of questions.entries()) {
    const made = await first.run(takenInputs(first, inputs));
    answers.head.push(logitsOf(made));
    answers.resumed.push(logitsOf(await rest.run(takenInputs(rest, { ...inputs, ...made }))));
    onProgress(position + 1, questions.length);
  }
  return answers;
}

async function medianMs(session: JudgedSession, questions: readonly Question[]): Promise<number> {
  const slice = createSlices();
  const times: number[] = [];
  for (const { inputs } of questions.slice(0, TIMED_SAMPLES))
    times.push(await slice((runs) => session.meanMs(takenInputs(session, inputs), runs)));
  return quantile(times, 0.5);
}

const logitsOf = (outputs: NamedTensors): Float32Array =>
  asFloat32(LOGITS, outputs[LOGITS], 2).data;
const agreementOf = (answers: readonly Float32Array[], whole: readonly Float32Array[]): number =>
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
