// Request mutator: breaks requests of the Open Inference Protocol in the ways of faulty clients, proxies and attackers. The
// same seed gives the same requests.
import { deflateSync, gzipSync } from "node:zlib";
import { seededRandom } from "../../src/toolchain/seeded-random.ts";

export interface RawRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array<ArrayBuffer> | undefined;
}

const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "QUERY"];
const SEGMENTS = [
  "..",
  "%2e%2e",
  "%00",
  "%zz",
  "%",
  "a".repeat(256),
  "MOOD",
  "mood@2",
  "stats",
  "versions",
  "0",
  "-1",
  "999999999999",
  "1e3",
  "__proto__",
  "constructor",
  "ü",
  "infer",
  "config",
  "ready",
  "",
];
const VALUES: readonly unknown[] = [
  null,
  true,
  -1,
  0,
  1,
  1.5,
  2 ** 31,
  2 ** 53,
  -(2 ** 63),
  1e308,
  "",
  "x",
  "NaN",
  "Infinity",
  "\u0000",
  "\ud800",
  "9".repeat(30),
  "x".repeat(3_000),
  [],
  {},
  [[]],
  [[[[]]]],
  { toString: 1 },
  "INT64",
  "BYTES",
  "shared_memory_region",
];
const KEYS = [
  "name",
  "shape",
  "datatype",
  "data",
  "parameters",
  "binary_data_size",
  "shared_memory_region",
  "classification",
  "binary_data_output",
  "sequence_id",
  "timeout",
  "priority",
  "tier",
  "id",
  "inputs",
  "outputs",
  "__proto__",
  "triton_x",
];
const NUMBERS = [
  "",
  "-1",
  "-0",
  "0",
  "1",
  "7",
  "1e3",
  "0x10",
  "99999999999999999999",
  "NaN",
  "4294967296",
  " 3",
  "3 ",
];
const TEXTS = [
  "{",
  "}",
  "[",
  "]",
  '"',
  ",",
  ":",
  "null",
  "1e999",
  "-",
  "\\u0000",
  "\\ud800",
  "[".repeat(120),
  '{"a":'.repeat(120),
  "18446744073709551616",
  "/*",
  "\ufeff",
  "NaN",
];
const HEADERS: readonly (readonly [string, readonly string[]])[] = [
  ["inference-header-content-length", NUMBERS],
  ["content-length", NUMBERS],
  ["content-encoding", ["gzip", "deflate", "identity", "br", "gzip, gzip", "GZIP", "x"]],
  [
    "content-type",
    [
      "application/json",
      "text/plain",
      "multipart/form-data; boundary=x",
      "application/x-protobuf",
      "",
      ";;",
    ],
  ],
  ["accept-encoding", ["gzip", "deflate;q=0.1", "*", "gzip;q=x", ",,,", "identity;q=0"]],
  ["x-deadline-ms", NUMBERS],
  ["x-request-id", ["x".repeat(300), "a b", ""]],
  ["traceparent", ["x", "00-0-0-0"]],
];

const BINARY_HEADER = "inference-header-content-length";

/** Random choices, all from one seed. */
interface Chooser {
  /** In [0, 1). */
  random(): number;
  /** Integer in [0, limit). */
  below(limit: number): number;
  pick<Item>(items: readonly Item[]): Item;
}

/**
 * Returns a function that picks a request of the corpus and mutates it up to three times.
 * @param corpus valid requests
 */
export function createRequestMutator(
  seed: number,
  corpus: readonly RawRequest[],
): () => RawRequest {
  const chooser = createChooser(seed);
  return () => {
    let request = chooser.pick(corpus);
    for (let remaining = 1 + chooser.below(3); remaining > 0; remaining--)
      request = mutateRequest(chooser, request);
    return request;
  };
}

function createChooser(seed: number): Chooser {
  const random = seededRandom(seed);
  const below = (limit: number) => Math.floor(random() * limit);
  return {
    random,
    below,
    pick<Item>(items: readonly Item[]): Item {
      const item = items[below(items.length)];
      if (item === undefined) throw new RangeError("the list of choices is empty");
      return item;
    },
  };
}

function mutateRequest(chooser: Chooser, request: RawRequest): RawRequest {
  const { below, pick } = chooser;
  const { path, headers, body } = request;
  switch (below(16)) {
    case 0:
      return { ...request, method: pick(METHODS) };
    case 1:
      return { ...request, path: mutatePath(chooser, path) };
    case 2:
    case 3: {
      const [name, values] = pick(HEADERS);
      return { ...request, headers: { ...headers, [name]: pick(values) } };
    }
    case 4:
    case 5:
      return compressBody(chooser, request);
    case 6:
    case 7:
    case 8:
      return body === undefined
        ? { ...request, body: new TextEncoder().encode(pick(TEXTS)) }
        : { ...request, body: mutateBytes(chooser, body) };
    default:
      return mutateJsonBody(chooser, request);
  }
}

/** Compresses the body; the `content-encoding` may name the other algorithm. */
function compressBody({ pick }: Chooser, request: RawRequest): RawRequest {
  const { headers, body } = request;
  const compress = pick([gzipSync, deflateSync]);
  if (body === undefined) return request;
  return {
    ...request,
    headers: { ...headers, "content-encoding": pick(["gzip", "deflate"]) },
    body: new Uint8Array(compress(body)),
  };
}

/** Mutates the JSON of the body. The length header of a binary body mostly stays correct, so that tensors are parsed too. */
function mutateJsonBody(chooser: Chooser, request: RawRequest): RawRequest {
  const { path, headers, body } = request;
  if (body === undefined || headers["content-encoding"] !== undefined)
    return { ...request, path: mutatePath(chooser, path) };
  const jsonBytes = Number(headers[BINARY_HEADER] ?? body.byteLength);
  try {
    const mutatedBody = mutateJson(chooser, body, jsonBytes);
    const keepsLengthCorrect = headers[BINARY_HEADER] !== undefined && chooser.random() < 0.9;
    const mutatedJsonBytes = mutatedBody.byteLength - body.byteLength + jsonBytes;
    return {
      ...request,
      body: mutatedBody,
      headers: keepsLengthCorrect
        ? { ...headers, [BINARY_HEADER]: String(mutatedJsonBytes) }
        : headers,
    };
  } catch {
    // An earlier mutation left no valid JSON.
    return { ...request, body: mutateBytes(chooser, body) };
  }
}

function mutatePath({ random, below, pick }: Chooser, path: string): string {
  const segments = path.split("/");
  const index = below(segments.length);
  const mutated =
    random() < 0.5
      ? segments.with(index, pick(SEGMENTS))
      : segments.toSpliced(index, below(2), pick(SEGMENTS));
  return mutated.join("/").replace(/^\/*/, "/") + (random() < 0.1 ? "?x=1&y" : "");
}

/** Truncates the body, repeats its end, inserts text, deletes up to 8 bytes or overwrites one. */
function mutateBytes({ below, pick }: Chooser, body: Uint8Array): Uint8Array<ArrayBuffer> {
  const offset = below(body.byteLength + 1);
  switch (below(5)) {
    case 0:
      return new Uint8Array(body.subarray(0, offset));
    case 1:
      return Uint8Array.from([...body, ...body.subarray(offset)]);
    case 2:
      return Uint8Array.from([
        ...body.subarray(0, offset),
        ...new TextEncoder().encode(pick(TEXTS)),
        ...body.subarray(offset),
      ]);
    case 3:
      return Uint8Array.from([
        ...body.subarray(0, offset),
        ...body.subarray(offset + 1 + below(8)),
      ]);
    default: {
      const overwritten = new Uint8Array(body);
      if (offset < overwritten.byteLength) overwritten[offset] = below(256);
      return overwritten;
    }
  }
}

/** Replaces one value, adds a key or deletes one, anywhere in the leading JSON. @throws SyntaxError */
function mutateJson(
  { random, below, pick }: Chooser,
  body: Uint8Array,
  jsonBytes: number,
): Uint8Array<ArrayBuffer> {
  const message: unknown = JSON.parse(new TextDecoder().decode(body.subarray(0, jsonBytes)));
  let holder: object = typeof message === "object" && message !== null ? message : {};
  for (let depth = below(6); depth > 0; depth--) {
    const next: unknown = Reflect.get(holder, pick(["", ...Object.keys(holder)]));
    if (typeof next !== "object" || next === null) break;
    holder = next;
  }
  const key = random() < 0.7 ? pick(["0", ...Object.keys(holder)]) : pick(KEYS);
  if (random() < 0.2) Reflect.deleteProperty(holder, key);
  else
    Object.defineProperty(holder, key, {
      value: pick(VALUES),
      enumerable: true,
      configurable: true,
      writable: true,
    });
  return Uint8Array.from([
    ...new TextEncoder().encode(JSON.stringify(message)),
    ...body.subarray(jsonBytes),
  ]);
}
