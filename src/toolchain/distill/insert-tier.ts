// Puts a new tier into a project: before its teacher, or in the place of the tier that had its name.

import { coreErrors } from "../../core/common-errors.ts";
import { toolchainErrors } from "../errors.ts";
import { publishingErrors } from "../../registry/publishing-errors.ts";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { formatZodIssues } from "../../core/config.ts";
import { type ModelProject, modelProjectSchema } from "../../registry/manifest.ts";
import { PROJECT_FILE } from "../project.ts";
import { writeFileAtomic } from "../write-file-atomic.ts";

export interface NewTierSpec {
  readonly id: string;
  readonly place: "edge" | "region";
  readonly teacher: string;
  /** Whether it may take the place of a tier with its name. */
  readonly replace: boolean;
}

/**
 * Edge tiers come before region tiers, and a student before its teacher.
 * @returns its position, and how many tiers it takes the place of
 * @throws no_such_tier, not_distillable
 */
export function findInsertPosition(
  { model, tiers }: Pick<ModelProject, "model" | "tiers">,
  { id, place, teacher, replace }: NewTierSpec,
): { readonly index: number; readonly deleteCount: 0 | 1 } {
  const teacherAt = tiers.findIndex((tier) => tier.id === teacher);
  if (teacherAt < 0)
    throw coreErrors.noSuchTier(
      model,
      teacher,
      tiers.map((tier) => tier.id),
    );
  if (id === teacher)
    throw toolchainErrors.notDistillable(
      "the student has its teacher's name",
      "Give it another one with --out.",
    );
  if (place === "region" && tiers[teacherAt]?.place === "edge")
    throw toolchainErrors.notDistillable(
      `a region tier would come before its teacher ${teacher}, which is an edge tier`,
      "Distil it into an edge tier.",
    );
  const present = tiers.findIndex((tier) => tier.id === id);
  if (present >= 0) {
    if (!replace)
      throw toolchainErrors.notDistillable(
        `${model} has a tier ${id}`,
        "Give the student another name with --out, or put it in that one's place with --replace.",
      );
    if (present > teacherAt || tiers[present]?.place !== place)
      throw toolchainErrors.notDistillable(
        `the tier ${id} is ${present > teacherAt ? "behind its teacher" : `no ${place} tier`}`,
        "Give the student another name with --out.",
      );
    return { index: present, deleteCount: 1 };
  }
  const firstRegion = tiers.findIndex((tier) => tier.place === "region");
  return {
    index: place === "edge" && firstRegion >= 0 ? Math.min(teacherAt, firstRegion) : teacherAt,
    deleteCount: 0,
  };
}

export interface TierInsertion {
  /** As in model.json. */
  readonly tier: { readonly id: string };
  readonly index: number;
  readonly deleteCount: 0 | 1;
  /** By path. */
  readonly files: ReadonlyMap<string, Uint8Array>;
}

/** The files first, model.json last, each whole or not at all. What model.json has beside the tier stays as it is written there. @throws invalid_project */
export async function writeInsertedTier(
  folder: string,
  { tier, index: at, deleteCount: instead, files }: TierInsertion,
): Promise<void> {
  const path = join(folder, PROJECT_FILE);
  const before: { readonly tiers: readonly unknown[] } = JSON.parse(await readFile(path, "utf8"));
  const after = { ...before, tiers: before.tiers.toSpliced(at, instead, tier) };
  const parsed = modelProjectSchema.safeParse(after);
  if (!parsed.success) throw publishingErrors.invalidProject(path, formatZodIssues(parsed.error));
  for (const [name, bytes] of files) await writeFileAtomic(join(folder, name), bytes);
  await writeFileAtomic(path, `${JSON.stringify(after, undefined, 2)}\n`);
}
