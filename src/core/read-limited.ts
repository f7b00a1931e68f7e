// Reads a body into memory up to a limit, however small the pieces are that it comes in. The buffer grows by `transfer`, which
// frees the smaller one at once: what was read for a body that is refused does not wait for the garbage collector.

const INITIAL_BUFFER_BYTES = 16_384;

interface LimitedRead {
  readonly buffer: ArrayBuffer;
  readonly bytes: number;
}

/** @returns undefined once the body exceeds `maxBytes`; the rest is cancelled. @throws what the stream throws. */
export async function readLimited(
  body: ReadableStream<Uint8Array> | null,
  maxBytes: number,
): Promise<Uint8Array<ArrayBuffer> | undefined> {
  if (body === null) return new Uint8Array();
  const reader = openByobReader(body);
  const { buffer, bytes } =
    reader === undefined ? await readChunks(body, maxBytes) : await readWithByob(reader, maxBytes);
  if (bytes <= maxBytes)
    return new Uint8Array(bytes === buffer.byteLength ? buffer : buffer.transfer(bytes));
  buffer.transfer(0);
  return undefined;
}

/**
 * workerd's own streams fill a buffer without a turn for each piece: 65,537 of them, a byte each, took it 9 s and 70 MB one by one.
 * @returns undefined where there is no such stream: Node's Request breaks off when it is read so
 */
function openByobReader(body: ReadableStream<Uint8Array>): ReadableStreamBYOBReader | undefined {
  if (!("readAtLeast" in ReadableStreamBYOBReader.prototype)) return undefined; // workerd's own addition
  try {
    return body.getReader({ mode: "byob" });
  } catch {
    return undefined; // JavaScript feeds it
  }
}

/** @returns at most one byte more than `maxBytes` */
async function readWithByob(
  reader: ReadableStreamBYOBReader,
  maxBytes: number,
): Promise<LimitedRead> {
  let buffer = new ArrayBuffer(Math.min(INITIAL_BUFFER_BYTES, maxBytes + 1));
  for (let bytes = 0; ;) {
    const room = buffer.byteLength - bytes;
    const { value, done } = await reader.read(new Uint8Array(buffer, bytes), { min: room });
    if (value === undefined) throw new TypeError("the body was cancelled");
    buffer = value.buffer;
    bytes += value.byteLength;
    if (done) return { buffer, bytes };
    if (bytes > maxBytes) {
      await reader.cancel();
      return { buffer, bytes };
    }
    if (bytes === buffer.byteLength) buffer = buffer.transfer(Math.min(2 * bytes, maxBytes + 1));
  }
}

async function readChunks(
  body: ReadableStream<Uint8Array>,
  maxBytes: number,
): Promise<LimitedRead> {
  let buffer = new ArrayBuffer(0);
  let bytes = 0;
  for await (const piece of body) {
    const end = bytes + piece.byteLength;
    if (end > maxBytes) return { buffer, bytes: end }; // leaving the loop cancels the stream
    if (end > buffer.byteLength)
      buffer = buffer.transfer(Math.min(maxBytes, Math.max(end, 2 * bytes, INITIAL_BUFFER_BYTES)));
    new Uint8Array(buffer).set(piece, bytes);
    bytes = end;
  }
  return { buffer, bytes };
}
