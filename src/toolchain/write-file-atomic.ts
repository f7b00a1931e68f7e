// Files that are never half written, also beside another process that writes them.

import { mkdir, rename, writeFile } from "node:fs/promises";
import { dirname } from "node:path";

/** Makes the folder where it is not there. */
export async function writeFileAtomic(path: string, content: string | Uint8Array): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(`${path}.${process.pid}`, content);
  await rename(`${path}.${process.pid}`, path);
}
