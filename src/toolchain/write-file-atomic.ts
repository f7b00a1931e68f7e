// Writes files atomically, so that readers never see half a file, even if another process writes it concurrently.

import { mkdir, rename, writeFile } from "node:fs/promises";
import { dirname } from "node:path";

/** Creates the folder if it does not exist. */
export async function writeFileAtomic(path: string, content: string | Uint8Array): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(`${path}.${process.pid}`, content);
  await rename(`${path}.${process.pid}`, path);
}
