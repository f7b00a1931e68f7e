// Evaluation runners: opens the runtimes in which commands evaluate models, and shows progress.

import type { ClassificationProject } from "../registry/manifest.ts";
import type { PublishSource } from "../registry/publish.ts";
import type { EngineModule } from "../runtime/wasm/engine.ts";
import { type ProjectRun, runProjectTiers } from "../toolchain/evaluate/evaluate-project.ts";
import type { WorkerdRunner } from "../toolchain/evaluate/harness/workerd-runner.ts";
import type { LabeledSample } from "../toolchain/evaluate/labeled-samples.ts";
import type { Runner } from "../toolchain/evaluate/runner.ts";
import { ENGINE_FOLDER } from "./local/paths.ts";

export interface Runners {
  readonly edge: WorkerdRunner;
  readonly region: Runner;
  /** Loads the edge's engine into Node, for timings that are too short for workerd's clock. */
  readonly engine: () => Promise<EngineModule>;
}

/** Runs `work` with new runners and closes them afterwards, even if `work` throws. @throws component_failed */
export async function withRunners<Result>(
  work: (runners: Runners) => Promise<Result>,
): Promise<Result> {
  const [{ prepareEngine }, { loadEngineInNode }, { createWorkerdRunner }, { createNodeRunner }] =
    await Promise.all([
      import("../toolchain/engine/prepare-engine.ts"),
      import("../toolchain/engine/load-engine-in-node.ts"),
      import("../toolchain/evaluate/harness/workerd-runner.ts"),
      import("../toolchain/evaluate/node-runner.ts"),
    ]);
  const { sha256: engineSha256 } = await prepareEngine({ outDir: ENGINE_FOLDER });
  const edge = await createWorkerdRunner({ engineFolder: ENGINE_FOLDER, engineSha256 });
  try {
    return await work({
      edge,
      region: createNodeRunner(),
      engine: () => loadEngineInNode(ENGINE_FOLDER, engineSha256),
    });
  } finally {
    await edge.close();
  }
}

/** Runs every tier of a project on every sample and shows progress. @throws as `runProjectTiers`, component_failed */
export async function predictAllTiers(
  source: PublishSource,
  project: ClassificationProject,
  samples: readonly LabeledSample[],
): Promise<ProjectRun> {
  const progress = createProgressLine();
  const run = await withRunners(({ edge, region }) =>
    runProjectTiers(source, project, samples, {
      runners: { edge, region },
      onProgress: ({ tier, done, of }) => progress.show(tier, done, of),
    }),
  );
  progress.clear();
  return run;
}

const REFRESH_INTERVAL_MS = 200;

/** Creates a progress line on stderr that overwrites itself. Without a terminal, it prints nothing. */
export function createProgressLine(): {
  show(activity: string, done: number, total: number): void;
  clear(): void;
} {
  let shownAtMs = 0;
  return {
    show(activity, done, total) {
      if (
        !process.stderr.isTTY ||
        (performance.now() - shownAtMs < REFRESH_INTERVAL_MS && done < total)
      )
        return;
      shownAtMs = performance.now();
      process.stderr.write(`\r\u001b[K${activity}: ${done} of ${total}`);
    },
    clear() {
      if (process.stderr.isTTY) process.stderr.write("\r\u001b[K");
    },
  };
}
