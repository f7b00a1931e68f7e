// One tier asked about samples, one at a time, in the runtime that would serve it: what it answers, and how long it takes.

import { type Answer, readAnswers } from "../../cascade/calibration.ts";
import type { NamedTensors } from "../../core/tensor.ts";
import type { ClassificationProject } from "../../registry/manifest.ts";
import type { PublishSource } from "../../registry/publish.ts";
import { fileOf, labelsOf, preprocessorOf, type TierProject } from "./project-tier.ts";
import type { Runner } from "./runner.ts";
import type { Sample } from "./samples.ts";

export interface Asked {
  /** Of the graph, one per sample. */
  readonly outputs: readonly NamedTensors[];
  /** By the tier's calibration, one per sample. */
  readonly answers: readonly Answer[];
  /** Of preprocessing, graph and reading the answer, one per sample of `timedSamples`. */
  readonly ms: readonly number[];
}

/** Samples of which the latency is taken. */
const TIMED_SAMPLES = 300;
const WARM_UP_RUNS = 20;

/** @throws session_failed */
export async function askTier(source: PublishSource, project: ClassificationProject, tier: TierProject, samples: readonly Sample[], runner: Runner, onProgress: (done: number) => void = () => {}): Promise<Asked> {
  const labels = labelsOf(source, project);
  const session = await runner.open(fileOf(source, tier.graph));
  try {
    const preprocessor = preprocessorOf(source, project, tier);
    const [outputs, answers, aroundMs]: [NamedTensors[], Answer[], number[]] = [[], [], []]; // around the graph
    for (const { input } of samples) {
      const startedAtMs = performance.now();
      const inputs = preprocessor.encode([input]);
      const encodedAtMs = performance.now();
      const given = await session.run(inputs);
      const ranAtMs = performance.now();
      answers.push(...readAnswers(given, 1, labels, tier.calibration, 1));
      aroundMs.push(encodedAtMs - startedAtMs + performance.now() - ranAtMs);
      outputs.push(given);
      onProgress(outputs.length);
    }
    const ms: number[] = [];
    for (const sample of timedSamples(samples.length)) {
      const inputs = preprocessor.encode([(samples[sample] as Sample).input]);
      if (ms.length === 0) await session.meanMs(inputs, WARM_UP_RUNS);
      ms.push((aroundMs[sample] ?? 0) + (await session.meanMs(inputs, 1)));
    }
    return { outputs, answers, ms };
  } finally {
    await session.close();
  }
}

/** Positions of the samples whose latency is taken of so many, evenly spread. */
export function timedSamples(count: number): number[] {
  const step = Math.max(1, count / TIMED_SAMPLES);
  return Array.from({ length: Math.min(count, TIMED_SAMPLES) }, (_, index) => Math.floor(index * step));
}
