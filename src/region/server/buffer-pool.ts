// Buffers for merged inputs, used again by later batches of the same size: a fresh one has to be zeroed first.

export interface BufferPool {
  /** Exactly so long, as a view's whole buffer is copied when it is sent to a thread. May hold what was in it before. */
  acquire(byteLength: number): ArrayBuffer;
  /** For a buffer that nobody reads any more. */
  release(buffer: ArrayBuffer): void;
}

/** @param maxBytes that are kept; beyond that, those of the size that was not used for longest go */
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
      freeBySize.set(byteLength, free); // now the last one
      for (const [size, buffers] of freeBySize) {
        if (freeBytes <= maxBytes) return;
        freeBySize.delete(size);
        freeBytes -= size * buffers.length;
      }
    },
  };
}
