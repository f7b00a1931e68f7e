// Runs one tier on samples, one at a time, in the runtime that would serve it, and records answers and latencies.

import { type TierPrediction, decodePredictions } from "../../cascade/calibration.ts";
import type { NamedTensors } from "../../core/tensor.ts";
import type { ClassificationProject } from "../../registry/manifest.ts";
import type { PublishSource } from "../../registry/publish.ts";
import type { LabeledSample } from "./labeled-samples.ts";
import { createLatencyMeter } from "./latency.ts";
import {
  requireProjectFile,
  readProjectLabels,
  createTierPreprocessor,
  type ProjectTier,
} from "./project-tier.ts";
import type { Runner } from "./runner.ts";

export interface TierRun {
  /** Outputs of the graph, one per sample. */
  readonly outputs: readonly NamedTensors[];
  /** Answers with the tier's calibration, one per sample. */
  readonly answers: readonly TierPrediction[];
  /**
   * Latency of preprocessing, graph and postprocessing, one per sample of `selectTimedSamples`. Each is the mean of the
   * runs that fill `MIN_MEASUREMENT_MS`.
   */
  readonly latenciesMs: readonly number[];
}

/** Number of samples whose latency is measured. */
const TIMED_SAMPLES = 300;
/** A single run would mostly measure the call to workerd, which varies by more than a small graph takes. */
const MIN_MEASUREMENT_MS = 10;
/** Number of timed runs of preprocessing and postprocessing, which take place in this process. */
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
      const tensors = await session.run(preprocessor.encode([input]));
      answers.push(...decodePredictions(tensors, 1, labels, tier.calibration, 1));
      outputs.push(tensors);
      onProgress(outputs.length);
    }
    const latenciesMs: number[] = [];
    const measureGraph = createLatencyMeter(MIN_MEASUREMENT_MS);
    for (const sample of selectTimedSamples(samples.length)) {
      const { input } = samples[sample] as LabeledSample;
      const tensors = outputs[sample] as NamedTensors;
      const inputs = preprocessor.encode([input]);
      const processingMs = measureProcessingMs(() => {
        preprocessor.encode([input]);
        decodePredictions(tensors, 1, labels, tier.calibration, 1);
      });
      const graphMs = await measureGraph((runs) => session.measureMeanMs(inputs, runs));
      latenciesMs.push(processingMs + graphMs);
    }
    return { outputs, answers, latenciesMs };
  } finally {
    await session.close();
  }
}

function measureProcessingMs(work: () => void): number {
  const startedAtMs = performance.now();
  for (let run = 0; run < PROCESSING_RUNS; run++) work();
  return (performance.now() - startedAtMs) / PROCESSING_RUNS;
}

/** Returns the evenly spread positions of the samples whose latency is measured. */
export function selectTimedSamples(count: number): number[] {
  const step = Math.max(1, count / TIMED_SAMPLES);
  return Array.from({ length: Math.min(count, TIMED_SAMPLES) }, (_, index) =>
    Math.floor(index * step),
  );
}
