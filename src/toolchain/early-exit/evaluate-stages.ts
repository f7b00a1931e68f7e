// Stage evaluation: compares a graph in two stages with the whole graph. It calibrates and scores the exit head, and
// measures how crossing in 8 bits changes the logits. The first stage runs in the edge's runtime, the second in the region's.

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
  /** Accuracy of the exit head on in-scope samples. */
  readonly accuracy: number;
  /** Accuracy of the whole graph on in-scope samples. */
  readonly wholeAccuracy: number;
  /** Calibration of the exit head. Samples that it classifies as out of scope do not exit; `exit` ignores this. */
  readonly calibration: CalibrationParameters;
  readonly exit: ExitThreshold;
  /** Logits of the second stage, resumed from 8 bits, compared with the whole graph's. */
  readonly resumed: {
    readonly agreement: number;
    readonly lossPoints: number;
    readonly largestDifference: number;
  };
  /** The same comparison in FP32 on a part of the samples, which tests the cut itself. */
  readonly exact: { readonly agreement: number; readonly largestDifference: number };
  /** Median latency of the first stage for one row, in the edge's runtime. */
  readonly p50Ms: number;
}

export interface StagedGraphs {
  readonly first: Uint8Array;
  readonly second: Uint8Array;
  /** First stage that returns the value in FP32. */
  readonly fp32First: Uint8Array;
  /** Second stage that takes the value in FP32. */
  readonly fp32Second: Uint8Array;
}

export interface EvaluateStagesOptions {
  readonly runners: Readonly<Record<"edge" | "region", Runner>>;
  readonly samples: readonly EncodedSample[];
  /** The whole graph's logits of the samples. */
  readonly fullGraphLogits: readonly Float32Array[];
  /** The whole graph's label for out-of-scope samples, if it has one. */
  readonly outOfScopeLabel: string | undefined;
  /** Maximum loss of accuracy by the exit, in points. */
  readonly maxLossPoints: number;
  readonly onProgress?: (done: number, total: number) => void;
}

const FP32_SAMPLES = 64;
const TIMED_SAMPLES = 40;

/** @throws session_failed */
export async function evaluateStages(
  graphs: StagedGraphs,
  options: EvaluateStagesOptions,
): Promise<StageEvaluation> {
  const { runners, samples, fullGraphLogits, outOfScopeLabel, maxLossPoints, onProgress } = options;
  const { headLogits, resumedLogits, p50Ms } = await withSessions(
    { runner: runners.edge, graph: graphs.first },
    { runner: runners.region, graph: graphs.second },
    async (first, second) => ({
      ...(await runBothStages(first, second, samples, onProgress)),
      p50Ms: await measureMedianMs(first, samples),
    }),
  );
  const exact = await withSessions(
    { runner: runners.region, graph: graphs.fp32First },
    { runner: runners.region, graph: graphs.fp32Second },
    (first, second) => runBothStages(first, second, samples.slice(0, FP32_SAMPLES)),
  );

  const rows = samples.map(({ label }, position) => ({
    label,
    logits: headLogits[position] ?? new Float32Array(),
  }));
  const temperature = fitTemperature(rows);
  const outOfScope =
    outOfScopeLabel === undefined ? undefined : fitOutOfScope(rows, temperature, outOfScopeLabel);
  const { agreement, lossPoints } = scoreLogits(samples, resumedLogits, fullGraphLogits);
  return {
    accuracy: scoreLogits(samples, headLogits, fullGraphLogits).accuracy,
    wholeAccuracy: scoreLogits(samples, fullGraphLogits, fullGraphLogits).accuracy,
    calibration: { temperature, ...(outOfScope === undefined ? {} : { outOfScope }) },
    exit: selectExitThreshold(rows, temperature, fullGraphLogits, maxLossPoints),
    resumed: {
      agreement,
      lossPoints,
      largestDifference: findLargestDifference(resumedLogits, fullGraphLogits),
    },
    exact: {
      agreement: computeAgreement(exact.resumedLogits, fullGraphLogits),
      largestDifference: findLargestDifference(exact.resumedLogits, fullGraphLogits),
    },
    p50Ms,
  };
}

interface Stage {
  readonly runner: Runner;
  readonly graph: Uint8Array;
}

async function withSessions<Result>(
  first: Stage,
  second: Stage,
  use: (first: RunnerSession, second: RunnerSession) => Promise<Result>,
): Promise<Result> {
  const firstSession = await first.runner.open(first.graph);
  try {
    const secondSession = await second.runner.open(second.graph);
    return await use(firstSession, secondSession).finally(() => secondSession.close());
  } finally {
    await firstSession.close();
  }
}

interface StageLogits {
  /** Logits of the exit head. */
  readonly headLogits: Float32Array[];
  /** Logits of the second stage. */
  readonly resumedLogits: Float32Array[];
}

async function runBothStages(
  first: RunnerSession,
  second: RunnerSession,
  samples: readonly EncodedSample[],
  onProgress: (done: number, total: number) => void = () => {},
): Promise<StageLogits> {
  const logits: StageLogits = { headLogits: [], resumedLogits: [] };
  for (const [position, { inputs }] of samples.entries()) {
    const outputs = await first.run(selectInputs(first, inputs));
    logits.headLogits.push(logitsOf(outputs));
    const resumed = await second.run(selectInputs(second, { ...inputs, ...outputs }));
    logits.resumedLogits.push(logitsOf(resumed));
    onProgress(position + 1, samples.length);
  }
  return logits;
}

async function measureMedianMs(
  session: RunnerSession,
  samples: readonly EncodedSample[],
): Promise<number> {
  const measure = createLatencyMeter();
  const times: number[] = [];
  for (const { inputs } of samples.slice(0, TIMED_SAMPLES))
    times.push(await measure((runs) => session.measureMeanMs(selectInputs(session, inputs), runs)));
  return quantile(times, 0.5);
}

const logitsOf = (outputs: NamedTensors): Float32Array =>
  expectFloat32Tensor(LOGITS_OUTPUT, outputs[LOGITS_OUTPUT], 2).data;

const computeAgreement = (
  logits: readonly Float32Array[],
  reference: readonly Float32Array[],
): number =>
  logits.filter(
    (row, position) => argmax(row) === argmax(reference[position] ?? new Float32Array()),
  ).length / Math.max(1, logits.length);

const findLargestDifference = (
  logits: readonly Float32Array[],
  reference: readonly Float32Array[],
): number =>
  logits.reduce(
    (largest, row, position) =>
      row.reduce(
        (largestInRow, value, index) =>
          Math.max(largestInRow, Math.abs(value - (reference[position]?.[index] ?? Number.NaN))),
        largest,
      ),
    0,
  );
