// Reads a body into memory up to a limit, for chunks of any size. The buffer grows through `transfer`, which frees the
// smaller buffer immediately. The bytes of a rejected body therefore do not wait for the garbage collector.

const INITIAL_BUFFER_BYTES = 16_384;

interface LimitedRead {
  readonly buffer: ArrayBuffer;
  readonly bytes: number;
}

/** @returns undefined if the body exceeds `maxBytes`; the rest is cancelled @throws the stream's errors */
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
 * Opens a BYOB reader, because workerd's native streams fill a buffer without an event-loop turn per chunk.
 * Reading 65,537 chunks of one byte individually took workerd 9 s and 70 MB.
 * @returns undefined without native stream support; Node's Request aborts if it is read with BYOB
 */
function openByobReader(body: ReadableStream<Uint8Array>): ReadableStreamBYOBReader | undefined {
  if (!("readAtLeast" in ReadableStreamBYOBReader.prototype)) return undefined; // only workerd has it
  try {
    return body.getReader({ mode: "byob" });
  } catch {
    return undefined; // the stream has a JavaScript source
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
  for await (const chunk of body) {
    const end = bytes + chunk.byteLength;
    if (end > maxBytes) return { buffer, bytes: end }; // leaving the loop cancels the stream
    if (end > buffer.byteLength)
      buffer = buffer.transfer(Math.min(maxBytes, Math.max(end, 2 * bytes, INITIAL_BUFFER_BYTES)));
    new Uint8Array(buffer).set(chunk, bytes);
    bytes = end;
  }
  return { buffer, bytes };
}
