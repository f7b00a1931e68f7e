// ObjectStore in memory, for tests and short-lived tools.

import type { ObjectStore } from "../object-store.ts";
import { storeFailure } from "./store-failure.ts";

export function createMemoryObjectStore(): ObjectStore {
  const objects = new Map<string, { bytes: Uint8Array<ArrayBuffer>; etag: string }>();
  let writes = 0;

  return {
    async get(key, signal) {
      if (signal?.aborted) throw storeFailure(signal.reason);
      const found = objects.get(key);
      if (found === undefined) return undefined;
      return { body: new Blob([found.bytes]).stream(), size: found.bytes.byteLength, etag: found.etag };
    },
    async exists(key) {
      return objects.has(key);
    },
    async put(key, bytes, condition) {
      const existing = objects.get(key);
      const allowed =
        condition.kind === "any" || (condition.kind === "absent" ? existing === undefined : existing?.etag === condition.etag);
      if (!allowed) return { kind: "precondition-failed" };
      const etag = `"${++writes}"`;
      objects.set(key, { bytes: bytes.slice() as Uint8Array<ArrayBuffer>, etag });
      return { kind: "written", etag };
    },
    async list(prefix) {
      return [...objects.keys()].filter((key) => key.startsWith(prefix)).sort();
    },
  };
}
