// A ModelStore of which some small artifacts came along with the program: reading them takes no request.

import { sha256Hex } from "../core/hash.ts";
import type { ModelStore } from "./model-store.ts";

/** @param bundled by SHA-256; bytes that are not what their name says are read from the store instead */
export function withBundledArtifacts(
  store: ModelStore,
  bundled: ReadonlyMap<string, ArrayBuffer>,
): ModelStore {
  return {
    ...store,
    async readArtifact(ref, signal) {
      const bytes = bundled.get(ref.sha256);
      const right =
        bytes !== undefined &&
        bytes.byteLength === ref.size &&
        (await sha256Hex(new Uint8Array(bytes))) === ref.sha256;
      return right ? new Uint8Array(bytes.slice(0)) : await store.readArtifact(ref, signal);
    },
  };
}
