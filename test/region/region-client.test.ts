import { once } from "node:events";
// Region clients: the contract for each of them, and every fault of a region over HTTP.
// The table of faults makes the file long.
import { createServer, type RequestListener, type Server } from "node:http";
import { afterEach, describe, expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { createNonRecordingSpan } from "../../src/core/tracing.ts";
import { createRegionPool } from "../../src/region/client/region-pool.ts";
import { createInProcessRegionClient } from "../../src/region/drivers/in-process.ts";
import { createOipHttpRegionClient } from "../../src/region/drivers/oip-http.ts";
import { generateRegionKey } from "../../src/region/region-keys.ts";
import { createSignatureAuth } from "../../src/region/server/auth/signature-auth.ts";
import { startRegionServer } from "../../src/region/server/server.ts";
import { createSignedFetch } from "../../src/region/signed-fetch.ts";
import { regionClientContract } from "../contract/region-client.ts";
import {
  createRegionFixture,
  publishMoodModel,
  type RegionFixtureOptions,
} from "./region-fixture.ts";

async function startServingRegion(options: RegionFixtureOptions = {}) {
  const region = createRegionFixture(options);
  await publishMoodModel(region.store, {
    tiers: { slow: "slow-bag-of-tokens.onnx", heavy: "bag-of-tokens.onnx" },
  });
  return region;
}

regionClientContract("in process", async () => {
  const { app, lifecycle } = await startServingRegion();
  return {
    client: createInProcessRegionClient(app.fetch),
    drain: async () => void (await lifecycle.drain({ lingerMs: 0, timeoutMs: 0 })),
    close: async () => {},
  };
});

regionClientContract("over HTTP", async () => {
  const { app, lifecycle } = await startServingRegion();
  const server = await startRegionServer({
    fetch: app.fetch,
    lifecycle,
    host: "127.0.0.1",
    port: 0,
    drainTimeouts: { lingerMs: 0, timeoutMs: 1_000 },
  });
  return {
    client: createOipHttpRegionClient({ baseUrl: `${server.url}/` }),
    drain: async () => void (await lifecycle.drain({ lingerMs: 0, timeoutMs: 0 })),
    close: async () => void (await server.stop()),
  };
});

regionClientContract("over HTTP, signed", async () => {
  const key = generateRegionKey("edge");
  const { app, lifecycle } = await startServingRegion({
    authentication: await createSignatureAuth({ keys: [key] }),
  });
  const server = await startRegionServer({
    fetch: app.fetch,
    lifecycle,
    host: "127.0.0.1",
    port: 0,
    drainTimeouts: { lingerMs: 0, timeoutMs: 1_000 },
  });
  return {
    client: createOipHttpRegionClient({ baseUrl: server.url, fetch: createSignedFetch(key) }),
    drain: async () => void (await lifecycle.drain({ lingerMs: 0, timeoutMs: 0 })),
    close: async () => void (await server.stop()),
  };
});

regionClientContract("a pool of one", async () => {
  const { app, lifecycle } = await startServingRegion();
  const pool = createRegionPool([{ id: "a", client: createInProcessRegionClient(app.fetch) }], {
    clock: systemClock,
  });
  return {
    client: pool,
    drain: async () => void (await lifecycle.drain({ lingerMs: 0, timeoutMs: 0 })),
    close: async () => {},
  };
});

regionClientContract("a pool of two", async () => {
  const regions = [await startServingRegion(), await startServingRegion()];
  const pooled = regions.map(({ app }, index) => ({
    id: String(index),
    client: createInProcessRegionClient(app.fetch),
  }));
  return {
    client: createRegionPool(pooled, { clock: systemClock }),
    drain: async () =>
      void (await Promise.all(
        regions.map(({ lifecycle }) => lifecycle.drain({ lingerMs: 0, timeoutMs: 0 })),
      )),
    close: async () => {},
  };
});

let server: Server | undefined;
afterEach(() => {
  server?.closeAllConnections();
  server?.close();
});
async function serve(listener: RequestListener): Promise<string> {
  server = createServer(listener);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  return typeof address === "object" && address !== null ? `http://127.0.0.1:${address.port}` : "";
}
const request = {
  model: "mood",
  version: 1,
  tier: "heavy",
  inputs: [new TextEncoder().encode("good")],
  requestId: "r-1",
  timeoutMs: 2_000,
};
const infer = async (baseUrl: string, more = {}) =>
  await createOipHttpRegionClient({ baseUrl, maxResponseBytes: 10_000 }).infer({
    ...request,
    ...more,
  });
const answer = (outputs: unknown) =>
  JSON.stringify({ model_name: "mood", model_version: "1", outputs });
const logits = (fields = {}) => ({
  name: "logits",
  datatype: "FP32",
  shape: [1, 2],
  data: [1, 0],
  ...fields,
});
const faults: [title: string, code: string, detail: RegExp, listener: RequestListener][] = [
  [
    "a connection reset",
    "region_unavailable",
    /./,
    (incoming) => incoming.socket.resetAndDestroy(),
  ],
  [
    "a truncated response",
    "region_unavailable",
    /./,
    (_, response) => {
      response.writeHead(200, { "content-length": "500" }).write("{");
      setImmediate(() => response.destroy());
    },
  ],
  [
    "500",
    "region_unavailable",
    /500.*out of memory/,
    (_, response) => response.writeHead(500).end('{"error":"out of memory"}'),
  ],
  [
    "503",
    "region_unavailable",
    /503.*expired/,
    (_, response) => response.writeHead(503).end('{"error":"Request timeout expired"}'),
  ],
  [
    "401, because the client does not sign its requests",
    "region_unavailable",
    /401.*signature/,
    (_, response) =>
      response
        .writeHead(401, { "content-type": "application/json" })
        .end('{"error":"no signature"}'),
  ],
  ["429", "region_unavailable", /429/, (_, response) => response.writeHead(429).end()],
  [
    "an HTML error page of a proxy",
    "region_unavailable",
    /502.*<html>/,
    (_, response) => response.writeHead(502).end("<html>"),
  ],
  [
    "400",
    "region_refused",
    /400.*no such tensor/,
    (_, response) => response.writeHead(400).end('{"error":"no such tensor"}'),
  ],
  ["404", "region_refused", /404/, (_, response) => response.writeHead(404).end()],
  [
    "a redirect",
    "region_unavailable",
    /302/,
    (_, response) => response.writeHead(302, { location: "http://169.254.169.254/" }).end(),
  ],
  [
    "an endless error body",
    "region_unavailable",
    /500/,
    (_, response) => {
      response.writeHead(500).write("x".repeat(20_000));
    },
  ],
];

const unreadableResponses: [title: string, detail: RegExp, listener: RequestListener][] = [
  ["invalid JSON", /./, (_, response) => response.end("hello")],
  ["other JSON", /./, (_, response) => response.end("[1]")],
  ["too few elements", /./, (_, response) => response.end(answer([logits({ data: [1] })]))],
  ["no outputs", /./, (_, response) => response.end(answer([]))],
  [
    "too many rows",
    /"logits".*\b1\b/,
    (_, response) => response.end(answer([logits({ shape: [2, 1] })])),
  ],
  ["a scalar", /\b1\b/, (_, response) => response.end(answer([logits({ shape: [], data: [1] })]))],
  ["a huge response", /\b10000\b/, (_, response) => response.end(" ".repeat(10_001))],
];

describe("the HTTP region client", () => {
  it("sends the request with its id, trace context and timeout", async () => {
    const seen: unknown[] = [];
    const baseUrl = await serve((incoming, response) => {
      const body: Buffer[] = [];
      incoming
        .on("data", (chunk: Buffer) => body.push(chunk))
        .on("end", () => {
          const {
            "x-request-id": id,
            traceparent,
            "content-type": type,
            "inference-header-content-length": length,
          } = incoming.headers;
          const bytes = Buffer.concat(body);
          seen.push({
            method: incoming.method,
            url: incoming.url,
            headers: { id, traceparent, type },
            json: JSON.parse(bytes.toString("utf8", 0, Number(length))),
            binaryHex: bytes.subarray(Number(length)).toString("hex"),
          });
          response.end(answer([logits()]));
        });
    });
    expect(
      await infer(baseUrl, {
        span: createNonRecordingSpan({ traceparent: "00-a-b-01" }),
        timeoutMs: 1_500.25,
      }),
    ).toMatchObject({ logits: { shape: [1, 2] } });
    expect(seen).toEqual([
      {
        method: "POST",
        url: "/v2/models/mood/versions/1/infer",
        headers: { id: "r-1", traceparent: "00-a-b-01", type: "application/octet-stream" },
        json: {
          id: "r-1",
          parameters: { tier: "heavy", timeout: 1_500_250, binary_data_output: true },
          inputs: [
            { name: "input", datatype: "BYTES", shape: [1], parameters: { binary_data_size: 8 } },
          ],
        },
        binaryHex: "04000000676f6f64",
      },
    ]);
  });
});

describe("the HTTP region client with a faulty region", () => {
  it.each(faults)("reports the fault of a region: %s", async (_title, code, detail, listener) => {
    await expect(infer(await serve(listener))).rejects.toMatchObject({
      code,
      detail: expect.stringMatching(detail),
    });
  });

  it.each(unreadableResponses)(
    "reports an unreadable response: %s",
    async (_title, detail, listener) => {
      await expect(infer(await serve(listener))).rejects.toMatchObject({
        code: "region_unavailable",
        facts: { failure: "unreadable" },
        detail: expect.stringMatching(detail),
      });
    },
  );
});

describe("the HTTP region client with timeouts and forwarded responses", () => {
  it("times out if a region never answers, or never ends its response", async () => {
    await expect(infer(await serve(() => {}), { timeoutMs: 30 })).rejects.toMatchObject({
      code: "region_unavailable",
      detail: expect.stringContaining("30 ms"),
    });
    await expect(
      infer(await serve((_, response) => void response.writeHead(200).write("{")), {
        timeoutMs: 30,
      }),
    ).rejects.toMatchObject({
      code: "region_unavailable",
      detail: expect.stringContaining("30 ms"),
    });
  });

  it("applies the timeout to the end of a forwarded response, and maps other errors to codes", async () => {
    const forward = (baseUrl: string) =>
      createOipHttpRegionClient({ baseUrl }).forward({
        model: "mood",
        version: 1,
        body: new Uint8Array(),
        headers: {},
        requestId: "r-1",
        timeoutMs: 100,
      });
    const endless = await forward(
      await serve(
        (_, response) =>
          void response.writeHead(200, { "content-type": "application/json" }).write("{"),
      ),
    );
    await expect(endless.text()).rejects.toThrow(/time/i);
    await expect(
      forward(await serve((_, response) => response.writeHead(502).end("<html>"))),
    ).rejects.toMatchObject({
      code: "region_unavailable",
      detail: expect.stringMatching(/502.*<html>/),
    });
    await expect(
      forward(
        await serve((_, response) =>
          response.writeHead(401, { "content-type": "application/json" }).end('{"error":"no"}'),
        ),
      ),
    ).rejects.toMatchObject({ code: "region_unavailable" });
    await expect(
      forward(await serve((_, response) => void response.writeHead(413).write("too lar"))),
    ).rejects.toMatchObject({ code: "region_refused" });
  });

  it("reports a port without a listener as unavailable, and as not ready", async () => {
    const baseUrl = await serve(() => {});
    await new Promise((resolve) => server?.close(resolve));
    await expect(infer(baseUrl)).rejects.toMatchObject({ code: "region_unavailable" });
    expect(await createOipHttpRegionClient({ baseUrl }).isReady()).toBe(false);
  });
});
