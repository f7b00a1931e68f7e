// Bad input to /v2: rejected in the Open Inference Protocol's format, without effect on the next request.
import { beforeAll, describe, expect, it } from "vitest";
import { JSON_LENGTH_HEADER } from "../../src/protocol/open-inference.ts";
import toy from "../fixtures/toy.onnx";
import {
  type EdgeUnderTest,
  MAX_TENSOR_BODY_BYTES,
  startEdgeUnderTest,
} from "../support/edge-app.ts";
import { fullDeployment } from "./full-engine.ts";
import { post, readInferError, textsInput } from "./infer-requests.ts";

let edge: EdgeUnderTest;
beforeAll(async () => {
  edge = await startEdgeUnderTest(new Uint8Array(toy), fullDeployment);
});

const INFER = "/v2/models/toy/infer";
const json = (value: unknown): RequestInit => ({ method: "POST", body: JSON.stringify(value) });
const raw = (
  body: string | Uint8Array<ArrayBuffer>,
  headers: Record<string, string> = {},
): RequestInit => ({ method: "POST", body, headers });

const invalidRequests: [name: string, path: string, init: RequestInit, status: number][] = [
  ["an empty body", INFER, raw(""), 400],
  ["broken JSON", INFER, raw('{"inputs": ['), 400],
  ["JSON 120 deep", INFER, raw(`${"[".repeat(120)}${"]".repeat(120)}`), 400],
  ["JSON 40,000 deep", INFER, raw(`{"inputs":${"[".repeat(40_000)}${"]".repeat(40_000)}}`), 400],
  [
    "a shape whose elements overflow",
    INFER,
    raw(
      '{"inputs":[{"name":"input","datatype":"BYTES","shape":[16,1152921504606846978],"data":["yes"]}]}',
    ),
    400,
  ],
  [
    "a shape past 2^53",
    INFER,
    raw(
      '{"inputs":[{"name":"input","datatype":"BYTES","shape":[9007199254740993],"data":["yes"]}]}',
    ),
    400,
  ],
  [
    "a shape of 2^53 - 1",
    INFER,
    raw(
      '{"inputs":[{"name":"input","datatype":"BYTES","shape":[9007199254740991],"data":["yes"]}]}',
    ),
    400,
  ],
  [
    "a shape that is 0 modulo 2^64",
    INFER,
    raw(
      '{"inputs":[{"name":"input","datatype":"BYTES","shape":[4294967296,4294967296],"data":[]}]}',
    ),
    400,
  ],
  [
    "a negative dimension",
    INFER,
    raw('{"inputs":[{"name":"input","datatype":"BYTES","shape":[-1],"data":["yes"]}]}'),
    400,
  ],
  ["a repeated input", INFER, json({ inputs: [textsInput("yes"), textsInput("yes")] }), 400],
  [
    "a repeated output",
    INFER,
    json({ inputs: [textsInput("yes")], outputs: [{ name: "logits" }, { name: "logits" }] }),
    400,
  ],
  [
    "an unknown output",
    INFER,
    json({ inputs: [textsInput("yes")], outputs: [{ name: "scores" }] }),
    400,
  ],
  ["JSON of another shape", INFER, json([1]), 400],
  ["no inputs", INFER, json({}), 400],
  ["an empty text", INFER, json({ inputs: [textsInput(" ")] }), 400],
  ["no rows", INFER, json({ inputs: [textsInput()] }), 400],
  ["too many rows", INFER, json({ inputs: [textsInput("a", "b", "c", "d", "e")] }), 413],
  ["a text over the limit", INFER, json({ inputs: [textsInput("x".repeat(65))] }), 413],
  [
    "a text next to another input",
    INFER,
    json({ inputs: [textsInput("yes"), { ...textsInput("yes"), name: "other" }] }),
    400,
  ],
  ["too few elements", INFER, json({ inputs: [{ ...textsInput("yes"), shape: [2] }] }), 400],
  [
    "shared memory",
    INFER,
    json({
      inputs: [
        {
          name: "input",
          datatype: "BYTES",
          shape: [1],
          parameters: { shared_memory_region: "r" },
        },
      ],
    }),
    501,
  ],
  ["a sequence", INFER, json({ inputs: [textsInput("yes")], parameters: { sequence_id: 7 } }), 501],
  [
    "an invalid timeout",
    INFER,
    json({ inputs: [textsInput("yes")], parameters: { timeout: -1 } }),
    400,
  ],
  [
    "an invalid deadline",
    INFER,
    { ...json({ inputs: [textsInput("yes")] }), headers: { "x-deadline-ms": "soon" } },
    400,
  ],
  ["an unsupported media type", INFER, raw("yes", { "content-type": "image/png" }), 415],
  ["a negative JSON length", INFER, raw("{}", { [JSON_LENGTH_HEADER]: "-1" }), 400],
  ["a huge JSON length", INFER, raw("{}", { [JSON_LENGTH_HEADER]: "99999999999999999999" }), 400],
  ["a JSON length that is not a number", INFER, raw("{}", { [JSON_LENGTH_HEADER]: "two" }), 400],
  [
    "a string that is longer than the body",
    INFER,
    raw(
      new Uint8Array([
        ...new TextEncoder().encode(
          '{"inputs":[{"name":"input","datatype":"BYTES","shape":[1],"parameters":{"binary_data_size":8}}]}',
        ),
        0xff,
        0xff,
        0xff,
        0x7f,
        1,
        2,
        3,
        4,
      ]),
      { [JSON_LENGTH_HEADER]: "96" },
    ),
    400,
  ],
  ["a JSON length past the end", INFER, raw("{}", { [JSON_LENGTH_HEADER]: "999" }), 400],
  [
    "bytes after the last tensor",
    INFER,
    raw(`${JSON.stringify({ inputs: [textsInput("yes")] })}rest`, {
      [JSON_LENGTH_HEADER]: String(JSON.stringify({ inputs: [textsInput("yes")] }).length),
    }),
    400,
  ],
  ["a body over the limit", INFER, raw(" ".repeat(MAX_TENSOR_BODY_BYTES + 1)), 413],
  ["an unknown encoding", INFER, raw("{}", { "content-encoding": "zstd" }), 415],
  ["a broken gzip stream", INFER, raw("{}", { "content-encoding": "gzip" }), 400],
  ["an unknown model", "/v2/models/other/infer", json({ inputs: [] }), 400],
  ["an unknown version", "/v2/models/toy/versions/9/infer", json({ inputs: [] }), 404],
  ["a model name with a path in it", "/v2/models/..%2ftoy/infer", json({ inputs: [] }), 400],
  ["an invalid version", "/v2/models/toy/versions/99999999999/infer", json({ inputs: [] }), 400],
  ["another method", INFER, {}, 405],
  ["another method for metadata", "/v2/models/toy", { method: "DELETE" }, 405],
  ["another path", "/v2/nothing", {}, 404],
  ["the repository extension", "/v2/repository/index", { method: "POST" }, 501],
  ["loading a model", "/v2/repository/models/toy/load", { method: "POST" }, 501],
  ["statistics", "/v2/models/toy/stats", {}, 501],
  ["statistics of all models", "/v2/models/stats", {}, 501],
  ["a version's configuration", "/v2/models/toy/versions/1/config", {}, 501],
  ["trace settings", "/v2/models/toy/trace/setting", {}, 501],
  ["shared memory regions", "/v2/systemsharedmemory/status", {}, 501],
];

describe("a bad /v2 request", () => {
  it.each(invalidRequests)("is rejected: %s", async (_name, path, init, status) => {
    const response = await edge.app.request(path, init);
    expect(await readInferError(response)).toMatchObject({ status });
    expect((await post(edge, INFER, { inputs: [textsInput("yes")] })).status).toBe(200);
  });

  it("is rejected while 50 kB of gzip inflate to 50 MB", async () => {
    const bomb = new Uint8Array(
      await new Response(
        new Blob([new Uint8Array(50_000_000)]).stream().pipeThrough(new CompressionStream("gzip")),
      ).arrayBuffer(),
    );
    expect(bomb.byteLength).toBeLessThan(MAX_TENSOR_BODY_BYTES);
    const response = await edge.app.request(INFER, raw(bomb, { "content-encoding": "gzip" }));
    expect(await readInferError(response)).toMatchObject({ status: 413 });
  });

  it("gets the allowed method, or the region as an alternative", async () => {
    const response = await edge.app.request(INFER, { method: "DELETE" });
    expect(response.headers.get("allow")).toBe("POST");
    expect(await readInferError(await edge.app.request("/v2/models/toy/stats"))).toMatchObject({
      status: 501,
      error: expect.stringContaining("/v2/models/toy/stats"),
    });
  });
});
