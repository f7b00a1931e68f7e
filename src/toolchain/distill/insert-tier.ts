// Inserts a new tier into a project, before its teacher or in place of the tier with the same name.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { coreErrors } from "../../core/common-errors.ts";
import { formatZodIssues } from "../../core/config.ts";
import { type ModelProject, modelProjectSchema } from "../../registry/manifest.ts";
import { publishingErrors } from "../../registry/publishing-errors.ts";
import { toolchainErrors } from "../errors.ts";
import { PROJECT_FILE } from "../project.ts";
import { writeFileAtomic } from "../write-file-atomic.ts";

export interface NewTierSpec {
  readonly id: string;
  readonly place: "edge" | "region";
  readonly teacher: string;
  /** Allows the replacement of a tier with the same name. */
  readonly replace: boolean;
}

/**
 * Places edge tiers before region tiers, and a student before its teacher.
 * @returns position of the new tier, and the number of tiers it replaces
 * @throws no_such_tier, not_distillable
 */
export function findInsertPosition(
  { model, tiers }: Pick<ModelProject, "model" | "tiers">,
  { id, place, teacher, replace }: NewTierSpec,
): { readonly index: number; readonly deleteCount: 0 | 1 } {
  const teacherIndex = tiers.findIndex((tier) => tier.id === teacher);
  if (teacherIndex < 0)
    throw coreErrors.noSuchTier(
      model,
      teacher,
      tiers.map((tier) => tier.id),
    );
  if (id === teacher)
    throw toolchainErrors.notDistillable(
      "the student has the same name as its teacher",
      "Name the student with --out.",
    );
  if (place === "region" && tiers[teacherIndex]?.place === "edge")
    throw toolchainErrors.notDistillable(
      `a region tier would come before its teacher ${teacher}, which is an edge tier`,
      "Distill it into an edge tier.",
    );
  const existing = tiers.findIndex((tier) => tier.id === id);
  if (existing >= 0) {
    if (!replace)
      throw toolchainErrors.notDistillable(
        `${model} already has a tier ${id}`,
        "Name the student with --out, or replace the existing tier with --replace.",
      );
    if (existing > teacherIndex || tiers[existing]?.place !== place)
      throw toolchainErrors.notDistillable(
        `the tier ${id} is ${existing > teacherIndex ? "after its teacher" : `not in place ${place}`}`,
        "Name the student with --out.",
      );
    return { index: existing, deleteCount: 1 };
  }
  const firstRegion = tiers.findIndex((tier) => tier.place === "region");
  return {
    index:
      place === "edge" && firstRegion >= 0 ? Math.min(teacherIndex, firstRegion) : teacherIndex,
    deleteCount: 0,
  };
}

export interface TierInsertion {
  /** Tier in the form of model.json. */
  readonly tier: { readonly id: string };
  readonly index: number;
  readonly deleteCount: 0 | 1;
  /** Contents by path in the project. */
  readonly files: ReadonlyMap<string, Uint8Array>;
}

/**
 * Writes the files first and model.json last, each file atomically. All other fields of model.json
 * keep their values.
 * @throws invalid_project
 */
export async function writeInsertedTier(
  folder: string,
  { tier, index, deleteCount, files }: TierInsertion,
): Promise<void> {
  const path = join(folder, PROJECT_FILE);
  const before: { readonly tiers: readonly unknown[] } = JSON.parse(await readFile(path, "utf8"));
  const after = { ...before, tiers: before.tiers.toSpliced(index, deleteCount, tier) };
  const parsed = modelProjectSchema.safeParse(after);
  if (!parsed.success) throw publishingErrors.invalidProject(path, formatZodIssues(parsed.error));
  for (const [name, bytes] of files) await writeFileAtomic(join(folder, name), bytes);
  await writeFileAtomic(path, `${JSON.stringify(after, undefined, 2)}\n`);
}
