// Requests of the Open Inference Protocol made wrong in ways that clients, proxies and attackers find. Seeded: the same
// seed gives the same requests.
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

/** @param corpus right requests; each result is one of them, changed once or several times */
export function createRequestMutator(
  seed: number,
  corpus: readonly RawRequest[],
): () => RawRequest {
  const random = seededRandom(seed);
  const below = (limit: number) => Math.floor(random() * limit);
  const pick = <Item>(items: readonly Item[]): Item => {
    const item = items[below(items.length)];
    if (item === undefined) throw new RangeError("nothing to pick from");
    return item;
  };

  function mutatePath(path: string): string {
    const segments = path.split("/");
    const at = below(segments.length);
    const changed =
      random() < 0.5
        ? segments.with(at, pick(SEGMENTS))
        : segments.toSpliced(at, below(2), pick(SEGMENTS));
    return changed.join("/").replace(/^\/*/, "/") + (random() < 0.1 ? "?x=1&y" : "");
  }

  function mutateBytes(body: Uint8Array): Uint8Array<ArrayBuffer> {
    const at = below(body.byteLength + 1);
    switch (below(5)) {
      case 0:
        return new Uint8Array(body.subarray(0, at));
      case 1:
        return Uint8Array.from([...body, ...body.subarray(at)]);
      case 2:
        return Uint8Array.from([
          ...body.subarray(0, at),
          ...new TextEncoder().encode(pick(TEXTS)),
          ...body.subarray(at),
        ]);
      case 3:
        return Uint8Array.from([...body.subarray(0, at), ...body.subarray(at + 1 + below(8))]);
      default: {
        const flipped = new Uint8Array(body);
        if (at < flipped.byteLength) flipped[at] = below(256);
        return flipped;
      }
    }
  }

  /** One value somewhere in the JSON at the beginning, another key, or one less. */
  function mutateJson(body: Uint8Array, jsonBytes: number): Uint8Array<ArrayBuffer> {
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

  function mutate(request: RawRequest): RawRequest {
    const { method, path, headers, body } = request;
    const jsonBytes = Number(headers["inference-header-content-length"] ?? body?.byteLength ?? 0);
    switch (below(16)) {
      case 0:
        return { ...request, method: pick(METHODS) };
      case 1:
        return { ...request, path: mutatePath(path) };
      case 2:
      case 3: {
        const [name, values] = pick(HEADERS);
        return { ...request, headers: { ...headers, [name]: pick(values) } };
      }
      case 4:
      case 5: {
        const coder = pick([gzipSync, deflateSync]);
        return body === undefined
          ? request
          : {
              method,
              path,
              headers: { ...headers, "content-encoding": pick(["gzip", "deflate"]) },
              body: new Uint8Array(coder(body)),
            };
      }
      case 6:
      case 7:
      case 8:
        return body === undefined
          ? { ...request, body: new TextEncoder().encode(pick(TEXTS)) }
          : { ...request, body: mutateBytes(body) };
      default: {
        if (body === undefined || headers["content-encoding"] !== undefined)
          return { ...request, path: mutatePath(path) };
        try {
          const changed = mutateJson(body, jsonBytes);
          const isBinary =
            headers["inference-header-content-length"] !== undefined && random() < 0.9;
          return {
            method,
            path,
            body: changed,
            headers: isBinary
              ? {
                  ...headers,
                  "inference-header-content-length": String(
                    changed.byteLength - body.byteLength + jsonBytes,
                  ),
                }
              : headers,
          };
        } catch {
          return { ...request, body: mutateBytes(body) }; // no JSON any more
        }
      }
    }
  }

  return () => {
    let request = pick(corpus);
    for (let times = 1 + below(3); times > 0; times--) request = mutate(request);
    return request;
  };
}
