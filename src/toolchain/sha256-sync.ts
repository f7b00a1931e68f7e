// SHA-256 in Node, at once; what runs in workerd as well waits for core/hash.ts.

import { createHash } from "node:crypto";

/** In lower-case hex. @param parts one after the other; texts as UTF-8 */
export function sha256HexSync(...parts: readonly (string | Uint8Array)[]): string {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part);
  return hash.digest("hex");
}
