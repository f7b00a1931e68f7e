// Body limits and load shedding in workerd: bodies at their limit and one byte beyond, in every format and encoding.
import { beforeAll, describe, expect, it } from "vitest";
import { JSON_LENGTH_HEADER } from "../../src/protocol/open-inference.ts";
import toy from "../fixtures/toy.onnx";
import {
  type EdgeUnderTest,
  MAX_BODY_BYTES,
  MAX_IMAGE_BODY_BYTES,
  MAX_TENSOR_BODY_BYTES,
  startEdgeUnderTest,
} from "../support/edge-app.ts";
import { fullDeployment } from "./full-engine.ts";

const PREDICT = "/v1/models/toy/predict";
const EMBEDDINGS = "/v1/embeddings";
const INFER = "/v2/models/toy/infer";
const INFER_BODY = '{"inputs":[{"name":"input","shape":[1],"datatype":"BYTES","data":["yes"]}]}';
const MIB = 1_048_576;
const encode = (text: string) => new TextEncoder().encode(text);

let edge: EdgeUnderTest;
beforeAll(async () => {
  edge = await startEdgeUnderTest(new Uint8Array(toy), fullDeployment);
});

async function compress(
  bytes: Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array<ArrayBuffer>>,
  format: CompressionFormat,
): Promise<Uint8Array<ArrayBuffer>> {
  const source = bytes instanceof Uint8Array ? new Response(bytes).body : bytes;
  return new Uint8Array(
    await new Response(source?.pipeThrough(new CompressionStream(format))).arrayBuffer(),
  );
}

/** A stream of chunks without a length, and the number of pulls so far. */
function streamInChunks(body: Uint8Array, chunkBytes: number) {
  let offset = 0;
  let pullCount = 0;
  const stream = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        pullCount++;
        if (offset >= body.byteLength) return controller.close();
        controller.enqueue(body.subarray(offset, (offset += chunkBytes)));
      },
    },
    { highWaterMark: 0 },
  );
  return { stream, readPullCount: () => pullCount };
}

const post = async (path: string, body: BodyInit, headers: Record<string, string> = {}) =>
  await edge.app.request(path, { method: "POST", body, headers, duplex: "half" } as RequestInit);
/** Whether the body itself was too large, and not one of its inputs. */
async function isTooLarge(response: Response): Promise<boolean> {
  const { code, error }: { code?: string; error?: string } = await response.json();
  return (
    response.status === 413 &&
    (code === "body_too_large" || error?.startsWith("The body is larger") === true)
  );
}
const JSON_TYPE = { "content-type": "application/json" };
const pad = (text: string, bytes: number) => encode(text.padEnd(bytes));
/** A JSON body of exactly this size, mostly base64. */
const base64Json = (bytes: number) => encode(`{"inputs":{"b64":"${"A".repeat(bytes - 21)}"}}`);

const bodyCases: [
  name: string,
  path: string,
  limit: number,
  headers: Record<string, string>,
  createBody: (bytes: number) => Uint8Array<ArrayBuffer>,
][] = [
  ["JSON", PREDICT, MAX_BODY_BYTES, JSON_TYPE, (bytes) => pad('{"inputs":"yes"}', bytes)],
  [
    "JSON for embeddings",
    EMBEDDINGS,
    MAX_BODY_BYTES,
    JSON_TYPE,
    (bytes) => pad('{"input":"yes","model":"toy"}', bytes),
  ],
  ["base64 in JSON", PREDICT, MAX_BODY_BYTES, JSON_TYPE, base64Json],
  [
    "raw text",
    PREDICT,
    MAX_BODY_BYTES,
    { "content-type": "text/plain" },
    (bytes) => new Uint8Array(bytes).fill(0x61),
  ],
  [
    "a raw image",
    PREDICT,
    MAX_IMAGE_BODY_BYTES,
    { "content-type": "image/png" },
    (bytes) => new Uint8Array(bytes),
  ],
  ["JSON of tensors", INFER, MAX_TENSOR_BODY_BYTES, {}, (bytes) => pad(INFER_BODY, bytes)],
  [
    "binary tensors",
    INFER,
    MAX_TENSOR_BODY_BYTES,
    { [JSON_LENGTH_HEADER]: "10" },
    (bytes) => new Uint8Array(bytes),
  ],
];

describe("a body", () => {
  it.each(bodyCases)(
    "of %s is accepted up to its limit, plain, chunked and compressed",
    async (_name, path, limit, headers, createBody) => {
      for (const [bytes, isRejected] of [
        [limit - 1, false],
        [limit, false],
        [limit + 1, true],
      ] as const) {
        const body = createBody(bytes);
        expect(body.byteLength).toBe(bytes);
        expect(await isTooLarge(await post(path, body, headers))).toBe(isRejected);
        expect(
          await isTooLarge(await post(path, body, { ...headers, "content-length": String(bytes) })),
        ).toBe(isRejected);
        expect(
          await isTooLarge(await post(path, streamInChunks(body, 1_000).stream, headers)),
        ).toBe(isRejected);
        for (const format of ["gzip", "deflate"] as const) {
          const response = await post(path, await compress(body, format), {
            ...headers,
            "content-encoding": format,
          });
          expect(await isTooLarge(response), format).toBe(isRejected);
        }
      }
    },
  );
});

describe("a compressed or chunked body", () => {
  it("has the same effect compressed", async () => {
    const plain = await (await post(PREDICT, '{"inputs":"yes"}', JSON_TYPE)).json();
    for (const format of ["gzip", "deflate"] as const) {
      const response = await post(PREDICT, await compress(encode('{"inputs":"yes"}'), format), {
        ...JSON_TYPE,
        "content-encoding": format,
      });
      expect(await response.json()).toMatchObject({
        outputs: (plain as { outputs: unknown }).outputs,
      });
    }
  });

  it("of 100 kB of gzip is not inflated to 100 MB", async () => {
    let remainingMib = 100;
    const zeros = new ReadableStream<Uint8Array<ArrayBuffer>>({
      pull: (controller) =>
        remainingMib-- > 0 ? controller.enqueue(new Uint8Array(MIB)) : controller.close(),
    });
    const bomb = await compress(zeros, "gzip");
    expect(bomb.byteLength).toBeLessThan(110_000);
    for (const path of [INFER, PREDICT, EMBEDDINGS]) {
      const { stream, readPullCount } = streamInChunks(bomb, 100);
      expect((await post(path, stream, { ...JSON_TYPE, "content-encoding": "gzip" })).status).toBe(
        413,
      );
      expect(readPullCount()).toBeLessThan(900); // of more than 1,000 chunks
    }
  });

  it(
    "in 65,537 chunks of one byte is rejected beyond the limit, and accepted within it",
    { timeout: 60_000 },
    async () => {
      const { stream, readPullCount } = streamInChunks(new Uint8Array(65_537).fill(0x20), 1);
      expect((await post(PREDICT, stream, JSON_TYPE)).status).toBe(413);
      expect(readPullCount()).toBeLessThan(MAX_BODY_BYTES + 10);
      expect((await post(INFER, streamInChunks(pad(INFER_BODY, 65_537), 1).stream)).status).toBe(
        200,
      );
    },
  );
});

describe("an encoded body", () => {
  it.each([
    ["in an unsupported encoding", "br", 415, "unsupported_encoding"],
    ["in two encodings", "gzip, gzip", 415, "unsupported_encoding"],
    ["in another encoding than declared", "gzip", 400, "invalid_request"],
  ])("%s is rejected", async (_name, encoding, status, code) => {
    const response = await post(PREDICT, '{"inputs":"yes"}', {
      ...JSON_TYPE,
      "content-encoding": encoding,
    });
    expect(await response.json()).toMatchObject({ status, code });
    expect(response.headers.get("accept-encoding")).toBe(status === 415 ? "gzip, deflate" : null);
  });

  it("with truncated gzip is rejected", async () => {
    const body = await compress(encode(JSON.stringify({ inputs: "yes" })), "gzip");
    expect(
      await (
        await post(PREDICT, body.subarray(0, body.byteLength - 12), {
          ...JSON_TYPE,
          "content-encoding": "gzip",
        })
      ).json(),
    ).toMatchObject({ status: 400, code: "invalid_request" });
  });
});

/** Starts an edge whose region never answers. */
const startHangingEdge = async (maxInFlight: number) => {
  const edge = await startEdgeUnderTest(new Uint8Array(toy), fullDeployment, { maxInFlight });
  edge.regionBehavior = "hangs";
  return edge;
};

/** A request whose body counts its reads. */
function createCountedRequest(): {
  readonly init: RequestInit;
  readonly readPullCount: () => number;
} {
  const { stream, readPullCount } = streamInChunks(
    encode('{"inputs":"maybe","input":"maybe"}'),
    100,
  );
  return {
    init: { method: "POST", body: stream, headers: JSON_TYPE, duplex: "half" } as RequestInit,
    readPullCount,
  };
}

describe("load shedding", () => {
  it("rejects inference requests before reading them, and answers all others", async () => {
    const edge = await startHangingEdge(2);
    const pending = [
      edge.predict({ inputs: "maybe" }, { "x-deadline-ms": "300" }),
      edge.predict({ inputs: "maybe" }, { "x-deadline-ms": "300" }),
    ];
    await expect.poll(() => edge.regionRequests.length).toBe(2);
    for (const [path, status] of [
      [PREDICT, 503],
      [EMBEDDINGS, 429],
      [INFER, 503],
      ["/v2/models/toy/versions/1/infer", 503],
    ] as const) {
      const { init, readPullCount } = createCountedRequest();
      const response = await edge.app.request(path, init);
      expect(response.status, path).toBe(status);
      expect(response.headers.get("retry-after"), path).toBe("1");
      expect(readPullCount(), path).toBe(0);
    }
    expect(await (await edge.predict({ inputs: "yes" })).json()).toMatchObject({
      code: "overloaded",
      retryable: true,
    });
    const others = [
      "/v2/health/live",
      "/v2/health/ready",
      "/v1/models",
      "/v1/models/toy",
      "/v2/models/toy",
      "/openapi.json",
    ];
    for (const path of others) expect((await edge.app.request(path)).status, path).toBe(200);
    edge.clock.advance(300);
    await Promise.all(pending);
    expect((await edge.predict({ inputs: "yes" })).status).toBe(200);
  });

  it("releases its permits however a request ends", async () => {
    const edge = await startHangingEdge(1);
    for (const body of ["{", '{"inputs":"yes"}', '{"inputs":7}', "x".repeat(10_000)])
      await edge.predict(body);
    expect((await edge.predict({ inputs: "yes" })).status).toBe(200);
  });

  it("expires the permit of a request that the platform ended silently", async () => {
    const edge = await startHangingEdge(1);
    void edge.predict({ inputs: "maybe" }, { "x-deadline-ms": "600000" });
    await expect.poll(() => edge.regionRequests.length).toBe(1);
    expect((await edge.predict({ inputs: "yes" })).status).toBe(503);
    edge.clock.advance(60_000);
    expect((await edge.predict({ inputs: "yes" })).status).toBe(200);
  });
});
