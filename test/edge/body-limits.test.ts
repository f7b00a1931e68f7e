// Bodies at their limit and a byte beyond, in every form that they come in, inside workerd; and what takes a permit.
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

async function compressed(
  bytes: Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array<ArrayBuffer>>,
  format: CompressionFormat,
): Promise<Uint8Array<ArrayBuffer>> {
  const source = bytes instanceof Uint8Array ? new Response(bytes).body : bytes;
  return new Uint8Array(
    await new Response(source?.pipeThrough(new CompressionStream(format))).arrayBuffer(),
  );
}

/** Pieces of `pieceBytes`, without a length; how many were asked for. */
function streamInChunks(body: Uint8Array, pieceBytes: number) {
  let at = 0;
  let pulled = 0;
  const stream = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        pulled++;
        if (at >= body.byteLength) return controller.close();
        controller.enqueue(body.subarray(at, (at += pieceBytes)));
      },
    },
    { highWaterMark: 0 },
  );
  return { stream, pulled: () => pulled };
}

const post = async (path: string, body: BodyInit, headers: Record<string, string> = {}) =>
  await edge.app.request(path, { method: "POST", body, headers, duplex: "half" } as RequestInit);
/** Whether it was the body that was too large, and not what is in it. */
async function isTooLarge(response: Response): Promise<boolean> {
  const { code, error }: { code?: string; error?: string } = await response.json();
  return (
    response.status === 413 &&
    (code === "body_too_large" || error?.startsWith("The body is larger") === true)
  );
}
const JSON_TYPE = { "content-type": "application/json" };
const padded = (text: string, bytes: number) => encode(text.padEnd(bytes));
/** A JSON body of just so many bytes, nearly all of them base64. */
const base64Json = (bytes: number) => encode(`{"inputs":{"b64":"${"A".repeat(bytes - 21)}"}}`);

describe("a body", () => {
  it.each<
    [
      what: string,
      path: string,
      limit: number,
      headers: Record<string, string>,
      bodyOf: (bytes: number) => Uint8Array<ArrayBuffer>,
    ]
  >([
    ["JSON", PREDICT, MAX_BODY_BYTES, JSON_TYPE, (bytes) => padded('{"inputs":"yes"}', bytes)],
    [
      "JSON for embeddings",
      EMBEDDINGS,
      MAX_BODY_BYTES,
      JSON_TYPE,
      (bytes) => padded('{"input":"yes","model":"toy"}', bytes),
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
    ["JSON of tensors", INFER, MAX_TENSOR_BODY_BYTES, {}, (bytes) => padded(INFER_BODY, bytes)],
    [
      "binary tensors",
      INFER,
      MAX_TENSOR_BODY_BYTES,
      { [JSON_LENGTH_HEADER]: "10" },
      (bytes) => new Uint8Array(bytes),
    ],
  ])(
    "%s is taken up to its limit, as it is, in pieces, and compressed",
    async (_what, path, limit, headers, bodyOf) => {
      for (const [bytes, refused] of [
        [limit - 1, false],
        [limit, false],
        [limit + 1, true],
      ] as const) {
        const body = bodyOf(bytes);
        expect(body.byteLength).toBe(bytes);
        expect(await isTooLarge(await post(path, body, headers))).toBe(refused);
        expect(
          await isTooLarge(await post(path, body, { ...headers, "content-length": String(bytes) })),
        ).toBe(refused);
        expect(
          await isTooLarge(await post(path, streamInChunks(body, 1_000).stream, headers)),
        ).toBe(refused);
        for (const format of ["gzip", "deflate"] as const) {
          expect([
            format,
            await isTooLarge(
              await post(path, await compressed(body, format), {
                ...headers,
                "content-encoding": format,
              }),
            ),
          ]).toEqual([format, refused]);
        }
      }
    },
  );

  it("means the same compressed", async () => {
    const plain = await (await post(PREDICT, '{"inputs":"yes"}', JSON_TYPE)).json();
    for (const format of ["gzip", "deflate"] as const) {
      const response = await post(PREDICT, await compressed(encode('{"inputs":"yes"}'), format), {
        ...JSON_TYPE,
        "content-encoding": format,
      });
      expect(await response.json()).toMatchObject({
        outputs: (plain as { outputs: unknown }).outputs,
      });
    }
  });

  it("that was 100 kB of gzip is not made 100 MB", async () => {
    let left = 100;
    const zeros = new ReadableStream<Uint8Array<ArrayBuffer>>({
      pull: (controller) =>
        left-- > 0 ? controller.enqueue(new Uint8Array(MIB)) : controller.close(),
    });
    const bomb = await compressed(zeros, "gzip");
    expect(bomb.byteLength).toBeLessThan(110_000);
    for (const path of [INFER, PREDICT, EMBEDDINGS]) {
      const { stream, pulled } = streamInChunks(bomb, 100);
      expect((await post(path, stream, { ...JSON_TYPE, "content-encoding": "gzip" })).status).toBe(
        413,
      );
      expect(pulled()).toBeLessThan(900); // of more than 1,000
    }
  });

  it(
    "in 65,537 pieces of a byte is refused when they are too many, and taken where they are not",
    { timeout: 60_000 },
    async () => {
      const { stream, pulled } = streamInChunks(new Uint8Array(65_537).fill(0x20), 1);
      expect((await post(PREDICT, stream, JSON_TYPE)).status).toBe(413);
      expect(pulled()).toBeLessThan(MAX_BODY_BYTES + 10);
      expect((await post(INFER, streamInChunks(padded(INFER_BODY, 65_537), 1).stream)).status).toBe(
        200,
      );
    },
  );

  it.each([
    ["in an encoding that is not taken", "br", 415, "unsupported_encoding"],
    ["in two encodings", "gzip, gzip", 415, "unsupported_encoding"],
    ["not in the encoding that it says", "gzip", 400, "invalid_request"],
  ])("%s is refused", async (_what, encoding, status, code) => {
    const response = await post(PREDICT, '{"inputs":"yes"}', {
      ...JSON_TYPE,
      "content-encoding": encoding,
    });
    expect(await response.json()).toMatchObject({ status, code });
    expect(response.headers.get("accept-encoding")).toBe(status === 415 ? "gzip, deflate" : null);
  });

  it("that was cut off within its gzip is refused", async () => {
    const body = await compressed(encode(JSON.stringify({ inputs: "yes" })), "gzip");
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

describe("beyond so many requests at once", () => {
  const hanging = async (maxInFlight: number) => {
    const edge = await startEdgeUnderTest(new Uint8Array(toy), fullDeployment, { maxInFlight });
    edge.regionBehavior = "hangs";
    return edge;
  };
  /** A body of which not one byte is asked for. */
  function unread(): { readonly init: RequestInit; readonly pulled: () => number } {
    const { stream, pulled } = streamInChunks(encode('{"inputs":"maybe","input":"maybe"}'), 100);
    return {
      init: { method: "POST", body: stream, headers: JSON_TYPE, duplex: "half" } as RequestInit,
      pulled,
    };
  }

  it("refuses those that compute before it reads them, and answers all others", async () => {
    const edge = await hanging(2);
    const held = [
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
      const { init, pulled } = unread();
      const response = await edge.app.request(path, init);
      expect([path, response.status, response.headers.get("retry-after"), pulled()]).toEqual([
        path,
        status,
        "1",
        0,
      ]);
    }
    expect(await (await edge.predict({ inputs: "yes" })).json()).toMatchObject({
      code: "overloaded",
      retryable: true,
      detail: expect.stringContaining("2 requests"),
    });
    const others = [
      "/v2/health/live",
      "/v2/health/ready",
      "/v1/models",
      "/v1/models/toy",
      "/v2/models/toy",
      "/openapi.json",
    ];
    expect(
      await Promise.all(others.map(async (path) => (await edge.app.request(path)).status)),
    ).toEqual(others.map(() => 200));
    edge.clock.advance(300);
    await Promise.all(held);
    expect((await edge.predict({ inputs: "yes" })).status).toBe(200);
  });

  it("gives permits back however a request ends", async () => {
    const edge = await hanging(1);
    for (const body of ["{", '{"inputs":"yes"}', '{"inputs":7}', "x".repeat(10_000)])
      await edge.predict(body);
    expect((await edge.predict({ inputs: "yes" })).status).toBe(200);
  });

  it("takes the place of a request that the platform ended without a word, after a while", async () => {
    const edge = await hanging(1);
    void edge.predict({ inputs: "maybe" }, { "x-deadline-ms": "600000" });
    await expect.poll(() => edge.regionRequests.length).toBe(1);
    expect((await edge.predict({ inputs: "yes" })).status).toBe(503);
    edge.clock.advance(60_000);
    expect((await edge.predict({ inputs: "yes" })).status).toBe(200);
  });
});
