// Writes a model project into a folder. model.json is written last, so that a project is never
// incomplete.

import { mkdir, rename, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { reasonOf } from "../../core/errors.ts";
import type { ModelProject } from "../../registry/manifest.ts";
import { PROJECT_FILE, readProject } from "../project.ts";
import { importErrors } from "./errors.ts";

/**
 * @throws project_exists unless it may be replaced, project_not_written, invalid_project if the
 * written project cannot be read back
 */
export async function writeProject(
  folder: string,
  project: ModelProject,
  files: ReadonlyMap<string, Uint8Array>,
  options: { readonly replace: boolean },
): Promise<void> {
  const path = join(folder, PROJECT_FILE);
  if (!options.replace && (await exists(path))) throw importErrors.projectExists(folder);
  try {
    for (const [name, bytes] of files) {
      await mkdir(dirname(join(folder, name)), { recursive: true });
      await writeFile(join(folder, name), bytes);
    }
    await writeFile(`${path}.part`, `${JSON.stringify(project, undefined, 2)}\n`);
    await rename(`${path}.part`, path);
  } catch (error) {
    throw importErrors.projectNotWritten(folder, reasonOf(error), error);
  }
  await readProject(folder);
}

const exists = async (path: string): Promise<boolean> =>
  await stat(path).then(
    () => true,
    () => false,
  );
