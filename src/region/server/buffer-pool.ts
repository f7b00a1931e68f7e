// Pool of buffers for merged inputs. Later batches of the same size reuse them, because a new buffer has to be zeroed first.

export interface BufferPool {
  /** Returns a buffer of exactly this size, as a view's whole buffer is copied to a thread. Its content is arbitrary. */
  acquire(byteLength: number): ArrayBuffer;
  /** Returns a buffer that nothing reads any more. */
  release(buffer: ArrayBuffer): void;
}

/** @param maxBytes of pooled buffers; beyond it, the buffers of the least recently used size are dropped */
export function createBufferPool(maxBytes = 67_108_864): BufferPool {
  const freeBySize = new Map<number, ArrayBuffer[]>();
  let freeBytes = 0;

  return {
    acquire(byteLength) {
      const free = freeBySize.get(byteLength)?.pop();
      if (free === undefined) return new ArrayBuffer(byteLength);
      freeBytes -= byteLength;
      return free;
    },

    release(buffer) {
      const { byteLength } = buffer;
      const free = freeBySize.get(byteLength) ?? [];
      free.push(buffer);
      freeBytes += byteLength;
      freeBySize.delete(byteLength);
      freeBySize.set(byteLength, free); // Moves this size to the end, as the most recently used.
      for (const [size, buffers] of freeBySize) {
        if (freeBytes <= maxBytes) return;
        freeBySize.delete(size);
        freeBytes -= size * buffers.length;
      }
    },
  };
}
