// Synchronous SHA-256, in Node only. Code that also runs in workerd uses the asynchronous core/hash.ts.

import { createHash } from "node:crypto";

/** @param parts are hashed as one sequence of bytes, texts as UTF-8 @returns lower-case hex */
export function sha256HexSync(...parts: readonly (string | Uint8Array)[]): string {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part);
  return hash.digest("hex");
}
