// Malicious request bodies: each is rejected without exhausting memory, stack or CPU, and the next request is served.
import { deflateSync, gzipSync } from "node:zlib";
import { beforeAll, describe, expect, it } from "vitest";
import {
  createRegionFixture,
  postRequest,
  publishMoodModel,
  createTextBody,
  type RegionFixture,
} from "./region-fixture.ts";

const infer = "/v2/models/mood/infer";
const MIB = 1_048_576;

let region: RegionFixture;
beforeAll(async () => {
  region = createRegionFixture({ maxBodyBytes: 65_536 });
  await publishMoodModel(region.store);
  await region.store.writeAliases("mood", { stable: 1 }, undefined);
});

/** Chunked body that counts the chunks the server has pulled. */
function createChunkedBody(chunk: Uint8Array, count: number) {
  let sent = 0;
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (sent === count) return controller.close();
      sent++;
      controller.enqueue(chunk);
    },
  });
  const init: RequestInit & { duplex: "half" } = { method: "POST", body, duplex: "half" };
  return { init, sent: () => sent };
}

async function expectCorrectResponse(): Promise<void> {
  const response = await region.app.request(infer, postRequest(createTextBody(["good"])));
  expect(await response.json()).toMatchObject({ outputs: [{ data: [1, 0] }] });
}

const expensiveJson: [title: string, body: string][] = [
  ["arrays in arrays", "[".repeat(30_000)],
  ["objects in objects", '{"a":'.repeat(12_000)],
  [
    "arrays as data",
    `{"inputs":[{"name":"input","shape":[1],"datatype":"BYTES","data":${"[".repeat(30_000)}${"]".repeat(30_000)}}]}`,
  ],
  ["15,000 invalid inputs", `{"inputs":[${Array.from({ length: 15_000 }, () => "{}").join(",")}]}`],
  [
    "a thousand parameters",
    createTextBody(["good"], {
      parameters: Object.fromEntries(
        Array.from({ length: 1_000 }, (_, index) => [`p${index}`, index]),
      ),
    }),
  ],
  [
    "a rank of ten thousand",
    `{"inputs":[{"name":"input","shape":[${"1,".repeat(10_000)}1],"datatype":"BYTES","data":["good"]}]}`,
  ],
  [
    "a shape with more elements than the data",
    `{"inputs":[{"name":"input","shape":[2147483647],"datatype":"BYTES","data":["good"]}]}`,
  ],
  [
    "a shape whose element count overflows",
    `{"inputs":[{"name":"input","shape":[16,9007199254740991],"datatype":"BYTES","data":["good"]}]}`,
  ],
];

describe("the body limit", () => {
  it("rejects 100 kB of gzip that expand to 100 MB, without expanding them", async () => {
    const bomb = gzipSync(Buffer.alloc(100 * MIB));
    expect(bomb.byteLength).toBeLessThan(110_000);
    const headers = { "content-encoding": "gzip" };
    await region.app.request(infer, postRequest(bomb, headers)); // The first request allocates the buffers that later ones reuse.
    const before = process.memoryUsage().rss;
    let peak = before;
    for (let times = 0; times < 5; times++) {
      const response = await region.app.request(infer, postRequest(bomb, headers));
      expect(response.status).toBe(413);
      peak = Math.max(peak, process.memoryUsage().rss);
    }
    expect(peak - before).toBeLessThan(32 * MIB);
    await expectCorrectResponse();
  });

  it("rejects 65,537 one-byte chunks, and an endless body, as soon as they exceed the limit", async () => {
    for (const [bytes, count] of [
      [1, 65_537],
      [1_024, Infinity],
    ] as const) {
      const { init, sent } = createChunkedBody(new Uint8Array(bytes).fill(0x20), count);
      const response = await region.app.request(infer, init);
      expect(response.status).toBe(413);
      expect(sent() * bytes).toBeLessThan(65_536 + 4 * 1_024);
    }
    await expectCorrectResponse();
  });

  it("accepts as many chunks as the limit has bytes", async () => {
    const text = createTextBody(["good"]);
    const body = new TextEncoder().encode(text.padEnd(65_536));
    let at = 0;
    const stream = new ReadableStream<Uint8Array>({
      pull: (controller) =>
        at === body.byteLength ? controller.close() : controller.enqueue(body.subarray(at, ++at)),
    });
    const init: RequestInit & { duplex: "half" } = { method: "POST", body: stream, duplex: "half" };
    expect((await region.app.request(infer, init)).status).toBe(200);
  });
});

describe("the body limit of each encoding", () => {
  it("accepts bodies up to it and rejects one byte more: plain, chunked and compressed", async () => {
    const limit = 65_536;
    const binary = (bytes: number) => ({
      body: Buffer.concat([Buffer.from('{"inputs":[]}'), Buffer.alloc(bytes - 13)]),
      headers: { "inference-header-content-length": "13" },
    });
    const json = (bytes: number) => ({
      body: Buffer.from(createTextBody(["good"]).padEnd(bytes)),
      headers: {},
    });
    for (const createBody of [json, binary]) {
      for (const bytes of [limit - 1, limit, limit + 1]) {
        const { body, headers } = createBody(bytes);
        expect(body.byteLength).toBe(bytes);
        const responses = [
          region.app.request(infer, postRequest(body, headers)),
          region.app.request(infer, { ...createChunkedBody(body, 1).init, headers }),
          region.app.request(
            infer,
            postRequest(new Uint8Array(gzipSync(body)), { ...headers, "content-encoding": "gzip" }),
          ),
          region.app.request(
            infer,
            postRequest(new Uint8Array(deflateSync(body)), {
              ...headers,
              "content-encoding": "deflate",
            }),
          ),
        ];
        const tooLarge = (await Promise.all(responses)).map(({ status }) => status === 413);
        expect({ bytes, tooLarge }).toEqual({ bytes, tooLarge: Array(4).fill(bytes > limit) });
      }
    }
  });
});

describe("a region with expensive JSON", () => {
  it.each([120, 250_000])("rejects JSON nested %i deep that fits the body limit", async (depth) => {
    const { app, store, errorCodes } = createRegionFixture();
    await publishMoodModel(store);
    const nested = `${"[".repeat(depth)}${"]".repeat(depth)}`;
    for (const body of [nested, `{"inputs":${nested}}`]) {
      const response = await app.request("/v2/models/mood/versions/1/infer", postRequest(body));
      expect({ status: response.status, code: errorCodes.at(-1) }).toEqual({
        status: 400,
        code: "invalid_json",
      });
      expect((await response.json()).error).toMatch(/\b100\b/);
    }
  });

  it.each(expensiveJson)(
    "rejects %s with a short message",
    { timeout: 5_000 },
    async (_title, body) => {
      const response = await region.app.request(infer, postRequest(body));
      const text = await response.text();
      expect(response.status).toBe(400);
      expect(text.length).toBeLessThan(1_000);
      await expectCorrectResponse();
    },
  );
});
