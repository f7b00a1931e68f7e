// Reads the graphs that a build plan names, and writes the results of a build into the project's
// folder.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { PublishSource } from "../../registry/publish.ts";
import { PROJECT_FILE, readProject, readProjectFiles } from "../project.ts";
import { writeFileAtomic } from "../write-file-atomic.ts";
import type { BuildPlan } from "./build-plan.ts";
import type { BuiltProject } from "./build-project.ts";

/** Reads the project together with the source graphs of its candidates. @throws invalid_project */
export async function readProjectWithSources(
  folder: string,
  { tiers }: BuildPlan,
): Promise<PublishSource> {
  const source = await readProject(folder);
  const paths = tiers.flatMap(({ source: path, candidates }) => [
    path,
    ...candidates.flatMap((candidate) => candidate.source ?? []),
  ]);
  return {
    ...source,
    files: new Map([...source.files, ...(await readProjectFiles(folder, paths))]),
  };
}

/**
 * Writes the graphs first and model.json last, each file atomically. Fields of model.json outside
 * the built tiers keep their values, except a stale risk.
 */
export async function writeBuiltProject(
  folder: string,
  { tiers, source: { project, files } }: BuiltProject,
): Promise<void> {
  for (const { tier } of tiers) {
    const path = project.tiers.find(({ id }) => id === tier)?.graph;
    const bytes = path === undefined ? undefined : files.get(path);
    if (path !== undefined && bytes !== undefined) await writeFileAtomic(join(folder, path), bytes);
  }
  const path = join(folder, PROJECT_FILE);
  const before: { tiers: Record<string, unknown>[]; risk?: unknown } = JSON.parse(
    await readFile(path, "utf8"),
  );
  const { risk: _stale, ...others } = before;
  const after = {
    ...others,
    ...("risk" in project && project.risk !== undefined ? { risk: project.risk } : {}),
    tiers: before.tiers.map((tier) => {
      const built = tiers.some((builtTier) => builtTier.tier === tier["id"])
        ? project.tiers.find(({ id }) => id === tier["id"])
        : undefined;
      return built === undefined
        ? tier
        : {
            ...tier,
            precision: built.precision,
            calibration: built.calibration,
            exit: built.exit,
            figures: built.figures,
          };
    }),
  };
  await writeFileAtomic(path, `${JSON.stringify(after, undefined, 2)}\n`);
}
