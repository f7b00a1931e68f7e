// ObjectStore in memory, for tests and short-lived tools.

import { systemClock, type Clock } from "../../core/clock.ts";
import { compareByKey, type ObjectStore } from "../object-store.ts";
import { toStoreError } from "./store-error.ts";

/** @param clock provides the modification times of objects */
export function createMemoryObjectStore(clock: Clock = systemClock): ObjectStore {
  const objects = new Map<
    string,
    { bytes: Uint8Array<ArrayBuffer>; etag: string; modifiedAtMs: number }
  >();
  let writes = 0;

  return {
    async get(key, signal) {
      if (signal?.aborted) throw toStoreError(signal.reason);
      const found = objects.get(key);
      if (found === undefined) return undefined;
      return {
        body: new Blob([found.bytes]).stream(),
        size: found.bytes.byteLength,
        etag: found.etag,
        modifiedAtMs: found.modifiedAtMs,
      };
    },
    async exists(key) {
      return objects.has(key);
    },
    async put(key, bytes, condition) {
      const existing = objects.get(key);
      const allowed =
        condition.kind === "any" ||
        (condition.kind === "absent" ? existing === undefined : existing?.etag === condition.etag);
      if (!allowed) return { kind: "precondition-failed" };
      const etag = `"${++writes}"`;
      objects.set(key, {
        bytes: bytes.slice() as Uint8Array<ArrayBuffer>,
        etag,
        modifiedAtMs: clock.now(),
      });
      return { kind: "written", etag };
    },
    async delete(key) {
      objects.delete(key);
    },
    async list(prefix) {
      const found = [...objects].filter(([key]) => key.startsWith(prefix));
      return found
        .map(([key, { bytes, modifiedAtMs }]) => ({ key, size: bytes.byteLength, modifiedAtMs }))
        .sort(compareByKey);
    },
  };
}
