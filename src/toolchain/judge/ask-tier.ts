// One tier asked about samples, one at a time, in the runtime that would serve it: what it answers, and how long it takes.

import { type Answer, readAnswers } from "../../cascade/calibration.ts";
import type { NamedTensors } from "../../core/tensor.ts";
import type { ClassificationProject } from "../../registry/manifest.ts";
import type { PublishSource } from "../../registry/publish.ts";
import { createSlices } from "./latency.ts";
import { fileOf, labelsOf, preprocessorOf, type TierProject } from "./project-tier.ts";
import type { Runner } from "./runner.ts";
import type { Sample } from "./samples.ts";

export interface Asked {
  /** Of the graph, one per sample. */
  readonly outputs: readonly NamedTensors[];
  /** By the tier's calibration, one per sample. */
  readonly answers: readonly Answer[];
  /** Of preprocessing, graph and reading the answer, one per sample of `timedSamples`; each the mean of as many runs as make `SLICE_MS`. */
  readonly ms: readonly number[];
}

/** Samples of which the latency is taken. */
const TIMED_SAMPLES = 300;
/** Of the graph. One run alone would mostly be the asking of workerd, which varies by more than a small graph takes. */
const SLICE_MS = 10;
/** Of what is around the graph, which this process does. */
const AROUND_RUNS = 20;

/** @throws session_failed */
export async function askTier(
  source: PublishSource,
  project: ClassificationProject,
  tier: TierProject,
  samples: readonly Sample[],
  runner: Runner,
  onProgress: (done: number) => void = () => {},
): Promise<Asked> {
  const labels = labelsOf(source, project);
  const session = await runner.open(fileOf(source, tier.graph));
  try {
    const preprocessor = preprocessorOf(source, project, tier);
    const [outputs, answers]: [NamedTensors[], Answer[]] = [[], []];
    for (const { input } of samples) {
      const given = await session.run(preprocessor.encode([input]));
      answers.push(...readAnswers(given, 1, labels, tier.calibration, 1));
      outputs.push(given);
      onProgress(outputs.length);
    }
    const ms: number[] = [];
    const slice = createSlices(SLICE_MS);
    for (const sample of timedSamples(samples.length)) {
      const [{ input }, given] = [samples[sample] as Sample, outputs[sample] as NamedTensors];
      const inputs = preprocessor.encode([input]);
      const aroundMs = repeatedMs(() => {
        preprocessor.encode([input]);
        readAnswers(given, 1, labels, tier.calibration, 1);
      });
      ms.push(aroundMs + (await slice((runs) => session.meanMs(inputs, runs))));
    }
    return { outputs, answers, ms };
  } finally {
    await session.close();
  }
}

function repeatedMs(work: () => void): number {
  const startedAtMs = performance.now();
  for (let run = 0; run < AROUND_RUNS; run++) work();
  return (performance.now() - startedAtMs) / AROUND_RUNS;
}

/** Positions of the samples whose latency is taken of so many, evenly spread. */
export function timedSamples(count: number): number[] {
  const step = Math.max(1, count / TIMED_SAMPLES);
  return Array.from({ length: Math.min(count, TIMED_SAMPLES) }, (_, index) =>
    Math.floor(index * step),
  );
}
