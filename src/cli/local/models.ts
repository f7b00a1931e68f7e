// The local system's models: every project under a folder, published to its store.

import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { PROJECT_FILE, readProject } from "../../build/project.ts";
import { createS3ObjectStore } from "../../registry/drivers/s3.ts";
import type { S3Options } from "../../registry/s3-config.ts";
import { publishModel, type PublishResult } from "../../registry/publish.ts";
import { createModelStore } from "../../registry/store.ts";

/** @returns in the order of the folders' names. @throws invalid_project, model_store_unavailable */
export async function publishProjects(folder: string, options: S3Options): Promise<PublishResult[]> {
  const store = createModelStore(createS3ObjectStore(options));
  const published: PublishResult[] = [];
  for (const name of (await readdir(folder)).sort()) {
    const project = join(folder, name);
    if (await isProject(project)) published.push(await publishModel(store, await readProject(project)));
  }
  return published;
}

async function isProject(folder: string): Promise<boolean> {
  try {
    return (await stat(join(folder, PROJECT_FILE))).isFile();
  } catch {
    return false;
  }
}
