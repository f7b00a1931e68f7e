// Wraps a ModelStore so that small artifacts bundled with the program need no request.

import { sha256Hex } from "../core/hash.ts";
import type { ModelStore } from "./model-store.ts";

/** @param bundled artifacts by SHA-256; an artifact with a wrong digest is read from the store instead */
export function withBundledArtifacts(
  store: ModelStore,
  bundled: ReadonlyMap<string, ArrayBuffer>,
): ModelStore {
  return {
    ...store,
    async readArtifact(ref, signal) {
      const bytes = bundled.get(ref.sha256);
      const isIntact =
        bytes !== undefined &&
        bytes.byteLength === ref.size &&
        (await sha256Hex(new Uint8Array(bytes))) === ref.sha256;
      return isIntact ? new Uint8Array(bytes.slice(0)) : await store.readArtifact(ref, signal);
    },
  };
}
