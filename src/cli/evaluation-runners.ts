// The runtimes in which the command line judges models, and how it shows that it is at work.

import { type ProjectRun, runProjectTiers } from "../toolchain/evaluate/evaluate-project.ts";
import type { Runner } from "../toolchain/evaluate/runner.ts";
import type { LabeledSample } from "../toolchain/evaluate/labeled-samples.ts";
import type { WorkerdRunner } from "../toolchain/evaluate/harness/workerd-runner.ts";
import type { ClassificationProject } from "../registry/manifest.ts";
import type { PublishSource } from "../registry/publish.ts";
import type { EngineModule } from "../runtime/wasm/engine.ts";
import { ENGINE_FOLDER } from "./local/paths.ts";

export interface Runners {
  readonly edge: WorkerdRunner;
  readonly region: Runner;
  /** The edge's engine, to be run in Node where workerd's clock will not do. */
  readonly engine: () => Promise<EngineModule>;
}

/** Runs `work` with them, and closes them whatever comes of it. @throws component_failed */
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

/** Asks every tier of a project, and shows how far it is. @throws as `askProject`, component_failed */
export async function predictAllTiers(
  source: PublishSource,
  project: ClassificationProject,
  samples: readonly LabeledSample[],
): Promise<ProjectRun> {
  const progress = createProgressLine();
  const asked = await withRunners(({ edge, region }) =>
    runProjectTiers(source, project, samples, {
      runners: { edge, region },
      onProgress: ({ tier, done, of }) => progress.show(tier, done, of),
    }),
  );
  progress.clear();
  return asked;
}

const REFRESH_INTERVAL_MS = 200;

/** One line on stderr that is written over, where a person looks on; nothing otherwise. */
export function createProgressLine(): {
  show(what: string, done: number, of: number): void;
  clear(): void;
} {
  let shownAtMs = 0;
  return {
    show(what, done, of) {
      if (
        !process.stderr.isTTY ||
        (performance.now() - shownAtMs < REFRESH_INTERVAL_MS && done < of)
      )
        return;
      shownAtMs = performance.now();
      process.stderr.write(`\r\u001b[K${what}: ${done} of ${of}`);
    },
    clear() {
      if (process.stderr.isTTY) process.stderr.write("\r\u001b[K");
    },
  };
}
