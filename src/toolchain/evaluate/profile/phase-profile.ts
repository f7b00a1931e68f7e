// Phase profile: measures the phases of one answer in Node and in workerd. The phases are preprocessing, the graph, and
// postprocessing.

import { decodePredictions } from "../../../cascade/calibration.ts";
import type { NamedTensors } from "../../../core/tensor.ts";
import type { ClassificationProject } from "../../../registry/manifest.ts";
import type { PublishSource } from "../../../registry/publish.ts";
import { getTask } from "../../../tasks/tasks.ts";
import type { WorkerdRunner } from "../harness/workerd-runner.ts";
import type { LabeledSample } from "../labeled-samples.ts";
import { createLatencyMeter } from "../latency.ts";
import {
  requireProjectFile,
  readProjectLabels,
  readPreprocessorConfig,
  createTierPreprocessor,
  type ProjectTier,
} from "../project-tier.ts";
import type { RunnerSession, Runner } from "../runner.ts";
import { type LatencyPercentiles, computePercentiles } from "../slo.ts";

export const PHASES = ["preprocess", "infer", "postprocess"] as const;
export type Phase = (typeof PHASES)[number];

export interface PhaseProfile {
  readonly runtime: Runner["name"];
  /** In workerd, each value is the mean of several runs of one sample, because its clock stops while it computes. */
  readonly phases: Readonly<Record<Phase, LatencyPercentiles>>;
  /** Memory after the runs: the engine's in workerd, the growth of the process in Node. */
  readonly memoryBytes: number | undefined;
}

interface PhaseMeter {
  measurePreprocessMs(sample: LabeledSample): Promise<number>;
  measureInferMs(session: RunnerSession, inputs: NamedTensors): Promise<number>;
  measurePostprocessMs(outputs: NamedTensors): Promise<number>;
}

const WARM_UP_SAMPLES = 10;
/** Minimum duration of one call to workerd, so that the overhead of the call is small in comparison. */
const MIN_MEASUREMENT_MS = 5;

export async function profileNodePhases(
  source: PublishSource,
  project: ClassificationProject,
  tier: ProjectTier,
  samples: readonly LabeledSample[],
  runner: Runner,
): Promise<PhaseProfile> {
  const preprocessor = createTierPreprocessor(source, project, tier);
  const labels = readProjectLabels(source, project);
  const task = getTask(project.task);
  const meter: PhaseMeter = {
    measurePreprocessMs: async ({ input }) => {
      const bytes = task.encodeInput(input);
      return measureMs(() => preprocessor.encode([task.decodeInput(bytes, 0, project.input)]));
    },
    measureInferMs: (session, inputs) => session.measureMeanMs(inputs, 1),
    measurePostprocessMs: async (outputs) =>
      measureMs(() => decodePredictions(outputs, 1, labels, tier.calibration, labels.length)),
  };
  const beforeBytes = process.memoryUsage.rss();
  return await profilePhases(source, project, tier, samples, runner, meter, () =>
    Math.max(0, process.memoryUsage.rss() - beforeBytes),
  );
}

export async function profileWorkerdPhases(
  source: PublishSource,
  project: ClassificationProject,
  tier: ProjectTier,
  samples: readonly LabeledSample[],
  runner: WorkerdRunner,
): Promise<PhaseProfile> {
  const config = readPreprocessorConfig(source, tier);
  const labels = readProjectLabels(source, project);
  const task = getTask(project.task);
  const meters = {
    preprocess: createLatencyMeter(MIN_MEASUREMENT_MS),
    infer: createLatencyMeter(MIN_MEASUREMENT_MS),
    postprocess: createLatencyMeter(MIN_MEASUREMENT_MS),
  };
  const meter: PhaseMeter = {
    measurePreprocessMs: ({ input }) =>
      meters.preprocess((runs) =>
        runner.measurePreprocessMs(
          project.task,
          config,
          project.input,
          task.encodeInput(input),
          runs,
        ),
      ),
    measureInferMs: (session, inputs) =>
      meters.infer((runs) => session.measureMeanMs(inputs, runs)),
    measurePostprocessMs: (outputs) =>
      meters.postprocess((runs) =>
        runner.measurePostprocessMs(outputs, labels, tier.calibration, runs),
      ),
  };
  return await profilePhases(source, project, tier, samples, runner, meter, (session) =>
    session.memoryBytes(),
  );
}

async function profilePhases(
  source: PublishSource,
  project: ClassificationProject,
  tier: ProjectTier,
  samples: readonly LabeledSample[],
  runner: Runner,
  meter: PhaseMeter,
  readMemoryBytes: (session: RunnerSession) => number | undefined,
): Promise<PhaseProfile> {
  const preprocessor = createTierPreprocessor(source, project, tier);
  const session = await runner.open(requireProjectFile(source, tier.graph));
  try {
    const ms: Record<Phase, number[]> = { preprocess: [], infer: [], postprocess: [] };
    const warmUp = samples.slice(0, WARM_UP_SAMPLES);
    for (const [position, sample] of [...warmUp, ...samples].entries()) {
      const inputs = preprocessor.encode([sample.input]);
      const times = {
        preprocess: await meter.measurePreprocessMs(sample),
        infer: await meter.measureInferMs(session, inputs),
        postprocess: await meter.measurePostprocessMs(await session.run(inputs)),
      };
      if (position >= warmUp.length) for (const phase of PHASES) ms[phase].push(times[phase]);
    }
    return {
      runtime: runner.name,
      phases: {
        preprocess: computePercentiles(ms.preprocess),
        infer: computePercentiles(ms.infer),
        postprocess: computePercentiles(ms.postprocess),
      },
      memoryBytes: readMemoryBytes(session),
    };
  } finally {
    await session.close();
  }
}

function measureMs(work: () => unknown): number {
  const startedAtMs = performance.now();
  work();
  return performance.now() - startedAtMs;
}
