// Byte source: reads a snapshot sequentially from memory or from a stream.

import { coreErrors } from "../../core/common-errors.ts";
import { reasonOf } from "../../core/errors.ts";

export interface ByteSource {
  /** @returns exactly `count` bytes, or fewer at the end */
  read(count: number): Promise<Uint8Array>;
  /** Discards the remaining bytes. */
  cancel(): Promise<void>;
}

/** Creates a source whose reads return views, not copies. */
export function createBytesSource(bytes: Uint8Array): ByteSource {
  let offset = 0;
  return {
    async read(count) {
      const part = bytes.subarray(offset, offset + count);
      offset += part.byteLength;
      return part;
    },
    async cancel() {},
  };
}

/** Creates a source whose `read` throws model_store_unavailable if the stream fails. */
export function createStreamSource(stream: ReadableStream<Uint8Array>): ByteSource {
  const reader = stream.getReader();
  let remaining: Uint8Array = new Uint8Array();
  return {
    async read(count) {
      const result = new Uint8Array(count);
      let filled = 0;
      while (filled < count) {
        if (remaining.byteLength === 0) {
          const { done, value } = await reader.read().catch((error: unknown) => {
            throw coreErrors.storeUnavailable(
              `the stream of a snapshot broke: ${reasonOf(error)}`,
              error,
            );
          });
          if (done) return result.subarray(0, filled);
          remaining = value;
        }
        const part = remaining.subarray(0, count - filled);
        result.set(part, filled);
        filled += part.byteLength;
        remaining = remaining.subarray(part.byteLength);
      }
      return result;
    },
    cancel: () => reader.cancel().catch(() => {}),
  };
}
