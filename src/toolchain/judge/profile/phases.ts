// What the phases of one answer take, in the two runtimes: preprocessing, the graph, and reading the answer off its outputs.

import { readAnswers } from "../../../cascade/calibration.ts";
import type { NamedTensors } from "../../../core/tensor.ts";
import type { ClassificationProject } from "../../../registry/manifest.ts";
import type { PublishSource } from "../../../registry/publish.ts";
import { taskByName } from "../../../tasks/tasks.ts";
import { createSlices } from "../latency.ts";
import {
  fileOf,
  labelsOf,
  preprocessorConfigOf,
  preprocessorOf,
  type TierProject,
} from "../project-tier.ts";
import type { JudgedSession, Runner } from "../runner.ts";
import type { Sample } from "../samples.ts";
import { type Percentiles, percentiles } from "../slo.ts";
import type { WorkerdRunner } from "../stand/workerd-runner.ts";

export const PHASES = ["preprocess", "infer", "postprocess"] as const;
export type Phase = (typeof PHASES)[number];

export interface RuntimeProfile {
  readonly runtime: Runner["name"];
  /** In workerd each value is the mean of several runs of one sample: its clock stands still while it computes. */
  readonly phases: Readonly<Record<Phase, Percentiles>>;
  /** What the session holds after the runs: the engine's memory in workerd, what the process has grown by in Node. */
  readonly memoryBytes: number | undefined;
}

interface Meter {
  preprocessMs(sample: Sample): Promise<number>;
  inferMs(session: JudgedSession, inputs: NamedTensors): Promise<number>;
  postprocessMs(outputs: NamedTensors): Promise<number>;
}

const WARM_UP_SAMPLES = 10;
/** Of one request to workerd, beside which what asking takes is little. */
const SLICE_MS = 5;

export async function profileInNode(
  source: PublishSource,
  project: ClassificationProject,
  tier: TierProject,
  samples: readonly Sample[],
  runner: Runner,
): Promise<RuntimeProfile> {
  const preprocessor = preprocessorOf(source, project, tier);
  const labels = labelsOf(source, project);
  const task = taskByName(project.task);
  const meter: Meter = {
    preprocessMs: async ({ input }) => {
      const bytes = task.toBytes(input);
      return timed(() => preprocessor.encode([task.fromBytes(bytes, 0, project.input)]));
    },
    inferMs: (session, inputs) => session.meanMs(inputs, 1),
    postprocessMs: async (outputs) =>
      timed(() => readAnswers(outputs, 1, labels, tier.calibration, labels.length)),
  };
  const beforeBytes = process.memoryUsage.rss();
  return await profile(source, project, tier, samples, runner, meter, () =>
    Math.max(0, process.memoryUsage.rss() - beforeBytes),
  );
}

export async function profileInWorkerd(
  source: PublishSource,
  project: ClassificationProject,
  tier: TierProject,
  samples: readonly Sample[],
  runner: WorkerdRunner,
): Promise<RuntimeProfile> {
  const config = preprocessorConfigOf(source, tier);
  const labels = labelsOf(source, project);
  const task = taskByName(project.task);
  const slices = {
    preprocess: createSlices(SLICE_MS),
    infer: createSlices(SLICE_MS),
    postprocess: createSlices(SLICE_MS),
  };
  const meter: Meter = {
    preprocessMs: ({ input }) =>
      slices.preprocess((runs) =>
        runner.preprocessMs(project.task, config, project.input, task.toBytes(input), runs),
      ),
    inferMs: (session, inputs) => slices.infer((runs) => session.meanMs(inputs, runs)),
    postprocessMs: (outputs) =>
      slices.postprocess((runs) => runner.postprocessMs(outputs, labels, tier.calibration, runs)),
  };
  return await profile(source, project, tier, samples, runner, meter, (session) =>
    session.memoryBytes(),
  );
}

async function profile(
  source: PublishSource,
  project: ClassificationProject,
  tier: TierProject,
  samples: readonly Sample[],
  runner: Runner,
  meter: Meter,
  memoryOf: (session: JudgedSession) => number | undefined,
): Promise<RuntimeProfile> {
  const preprocessor = preprocessorOf(source, project, tier);
  const session = await runner.open(fileOf(source, tier.graph));
  try {
    const ms: Record<Phase, number[]> = { preprocess: [], infer: [], postprocess: [] };
    const warmUp = samples.slice(0, WARM_UP_SAMPLES);
    for (const [position, sample] of [...warmUp, ...samples].entries()) {
      const inputs = preprocessor.encode([sample.input]);
      const times = {
        preprocess: await meter.preprocessMs(sample),
        infer: await meter.inferMs(session, inputs),
        postprocess: await meter.postprocessMs(await session.run(inputs)),
      };
      if (position >= warmUp.length) for (const phase of PHASES) ms[phase].push(times[phase]);
    }
    return {
      runtime: runner.name,
      phases: {
        preprocess: percentiles(ms.preprocess),
        infer: percentiles(ms.infer),
        postprocess: percentiles(ms.postprocess),
      },
      memoryBytes: memoryOf(session),
    };
  } finally {
    await session.close();
  }
}

function timed(work: () => unknown): number {
  const startedAtMs = performance.now();
  work();
  return performance.now() - startedAtMs;
}
