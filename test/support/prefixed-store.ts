// Prefixed store: an initially empty part of an object store, for tests that share one store. Runs in workerd, too.
import type { ObjectStore } from "../../src/registry/object-store.ts";

let count = 0;

export function createPrefixedStore(objects: ObjectStore): ObjectStore {
  const prefix = `test-${Date.now()}-${Math.random().toString(36).slice(2)}-${++count}/`;
  return {
    get: (key, signal) => objects.get(prefix + key, signal),
    exists: (key, signal) => objects.exists(prefix + key, signal),
    put: (key, bytes, condition, contentType) =>
      objects.put(prefix + key, bytes, condition, contentType),
    delete: (key) => objects.delete(prefix + key),
    list: async (under, signal) =>
      (await objects.list(prefix + under, signal)).map((object) => ({
        ...object,
        key: object.key.slice(prefix.length),
      })),
  };
}
