// Bytes that are read in order: a snapshot that lies in memory, or one that is still arriving.

import { coreErrors } from "../../core/common-errors.ts";
import { reasonOf } from "../../core/errors.ts";

export interface ByteSource {
  /** @returns exactly `count` bytes, or fewer at the end. */
  read(count: number): Promise<Uint8Array>;
  /** Gives up the rest. */
  cancel(): Promise<void>;
}

/** Gives views, not copies. */
export function createBytesSource(bytes: Uint8Array): ByteSource {
  let offset = 0;
  return {
    async read(count) {
      const taken = bytes.subarray(offset, offset + count);
      offset += taken.byteLength;
      return taken;
    },
    async cancel() {},
  };
}

/** @throws model_store_unavailable from `read`, where the stream fails */
export function createStreamSource(stream: ReadableStream<Uint8Array>): ByteSource {
  const reader = stream.getReader();
  let left: Uint8Array = new Uint8Array();
  return {
    async read(count) {
      const taken = new Uint8Array(count);
      let filled = 0;
      while (filled < count) {
        if (left.byteLength === 0) {
          const { done, value } = await reader.read().catch((error: unknown) => {
            throw coreErrors.storeUnavailable(`a snapshot broke off: ${reasonOf(error)}`, error);
          });
          if (done) return taken.subarray(0, filled);
          left = value;
        }
        const part = left.subarray(0, count - filled);
        taken.set(part, filled);
        filled += part.byteLength;
        left = left.subarray(part.byteLength);
      }
      return taken;
    },
    cancel: () => reader.cancel().catch(() => {}),
  };
}
