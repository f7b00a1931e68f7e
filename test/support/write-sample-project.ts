// Writes the sample model as a project folder.
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { sampleFiles, sampleProject } from "./sample-model.ts";

export async function writeSampleProject(
  folder: string,
  project: object = sampleProject,
  files = sampleFiles(),
): Promise<void> {
  for (const [path, bytes] of files) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), bytes);
  }
  await writeFile(join(folder, "model.json"), JSON.stringify(project));
}
