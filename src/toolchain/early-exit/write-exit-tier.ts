// Writes an exit tier to its project's folder: the graphs first, model.json last. Other contents of model.json do not change.

import { mkdir, readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { PROJECT_FILE } from "../project.ts";
import { writeFileAtomic } from "../write-file-atomic.ts";
import type { ProjectWithExit } from "./add-exit-tier.ts";

/** @param id id of the new or changed edge tier */
export async function writeExitTier(
  folder: string,
  { project, files }: ProjectWithExit,
  id: string,
): Promise<void> {
  for (const [path, bytes] of files) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFileAtomic(join(folder, path), bytes);
  }
  const path = join(folder, PROJECT_FILE);
  const {
    risk: _former,
    ...before
  }: { readonly tiers: Record<string, unknown>[]; readonly risk?: unknown } = JSON.parse(
    await readFile(path, "utf8"),
  );
  const tiers = project.tiers.map((tier) => {
    const written = before.tiers.find((former) => former["id"] === tier.id);
    if (tier.id === id || written === undefined) return tier;
    const { resumes: _replaced, ...rest } = written;
    return tier.resumes === undefined ? rest : { ...rest, resumes: tier.resumes };
  });
  await writeFileAtomic(path, `${JSON.stringify({ ...before, tiers }, undefined, 2)}\n`);
}
