// One tier asked about samples, one at a time, in the runtime that would serve it: what it answers, and how long it takes.

import { type TierPrediction, decodePredictions } from "../../cascade/calibration.ts";
import type { NamedTensors } from "../../core/tensor.ts";
import type { ClassificationProject } from "../../registry/manifest.ts";
import type { PublishSource } from "../../registry/publish.ts";
import { createLatencyMeter } from "./latency.ts";
import {
  requireProjectFile,
  readProjectLabels,
  createTierPreprocessor,
  type ProjectTier,
} from "./project-tier.ts";
import type { Runner } from "./runner.ts";
import type { LabeledSample } from "./labeled-samples.ts";

export interface TierRun {
  /** Of the graph, one per sample. */
  readonly outputs: readonly NamedTensors[];
  /** By the tier's calibration, one per sample. */
  readonly answers: readonly TierPrediction[];
  /** Of preprocessing, graph and reading the answer, one per sample of `selectTimedSamples`; each the mean of as many runs as make `MIN_MEASUREMENT_MS`. */
  readonly latenciesMs: readonly number[];
}

/** Samples of which the latency is taken. */
const TIMED_SAMPLES = 300;
/** Of the graph. One run alone would mostly be the asking of workerd, which varies by more than a small graph takes. */
const MIN_MEASUREMENT_MS = 10;
/** Of what is around the graph, which this process does. */
const PROCESSING_RUNS = 20;

/** @throws session_failed */
export async function runTier(
  source: PublishSource,
  project: ClassificationProject,
  tier: ProjectTier,
  samples: readonly LabeledSample[],
  runner: Runner,
  onProgress: (done: number) => void = () => {},
): Promise<TierRun> {
  const labels = readProjectLabels(source, project);
  const session = await runner.open(requireProjectFile(source, tier.graph));
  try {
    const preprocessor = createTierPreprocessor(source, project, tier);
    const [outputs, answers]: [NamedTensors[], TierPrediction[]] = [[], []];
    for (const { input } of samples) {
      const given = await session.run(preprocessor.encode([input]));
      answers.push(...decodePredictions(given, 1, labels, tier.calibration, 1));
      outputs.push(given);
      onProgress(outputs.length);
    }
    const ms: number[] = [];
    const slice = createLatencyMeter(MIN_MEASUREMENT_MS);
    for (const sample of selectTimedSamples(samples.length)) {
      const [{ input }, given] = [
        samples[sample] as LabeledSample,
        outputs[sample] as NamedTensors,
      ];
      const inputs = preprocessor.encode([input]);
      const aroundMs = measureProcessingMs(() => {
        preprocessor.encode([input]);
        decodePredictions(given, 1, labels, tier.calibration, 1);
      });
      ms.push(aroundMs + (await slice((runs) => session.measureMeanMs(inputs, runs))));
    }
    return { outputs, answers, latenciesMs: ms };
  } finally {
    await session.close();
  }
}

function measureProcessingMs(work: () => void): number {
  const startedAtMs = performance.now();
  for (let run = 0; run < PROCESSING_RUNS; run++) work();
  return (performance.now() - startedAtMs) / PROCESSING_RUNS;
}

/** Positions of the samples whose latency is taken of so many, evenly spread. */
export function selectTimedSamples(count: number): number[] {
  const step = Math.max(1, count / TIMED_SAMPLES);
  return Array.from({ length: Math.min(count, TIMED_SAMPLES) }, (_, index) =>
    Math.floor(index * step),
  );
}
