// A region that answers its edges only: what is signed passes once, and nothing that was changed, forged or sent again does.
import { once } from "node:events";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ManualClock } from "../../../src/core/clock.ts";
import {
  computeContentDigest,
  importHmacKey,
  signMessage,
} from "../../../src/protocol/message-signature.ts";
import { createSignedFetch, type RegionRequestInit } from "../../../src/region/signed-fetch.ts";
import { generateRegionKey, type RegionKey } from "../../../src/region/region-keys.ts";
import { startRegionServer, type RegionServer } from "../../../src/region/server/server.ts";
import {
  createSignatureAuth,
  type SignatureAuthOptions,
} from "../../../src/region/server/auth/signature-auth.ts";
import {
  createRegionFixture,
  publishMoodModel,
  createTextBody,
  type RegionFixture,
} from "../region-fixture.ts";
import { propertyRuns } from "../../support/property-runs.ts";

const NOW_MS = 1_800_000_000_000;
const INFER = "http://region.test/v2/models/mood/versions/1/infer";
const key = generateRegionKey("edge-1");
const encode = (value: string) => new TextEncoder().encode(value);
const body = encode(createTextBody(["good"]));

let clock: ManualClock;
let region: RegionFixture;

/** A region in front of which nothing has been remembered yet. */
async function startRegion(options: Partial<SignatureAuthOptions> = {}): Promise<void> {
  clock = new ManualClock(NOW_MS);
  region = createRegionFixture({
    authentication: await createSignatureAuth({
      keys: [key],
      publicPaths: ["/v2/health/live", "/v2/health/ready"],
      clock,
      ...options,
    }),
  });
  await publishMoodModel(region.store);
  await region.store.writeAliases("mood", { stable: 1 }, undefined);
}

/** What an edge would send. */
async function createSignedRequest(
  init: RegionRequestInit & { readonly url?: string } = {},
  by: RegionKey = key,
  at = clock,
): Promise<{ url: string; init: RequestInit & { headers: Headers } }> {
  const { url = INFER, ...rest } = init;
  let sent: { url: string; init: RequestInit & { headers: Headers } } | undefined;
  const sign = createSignedFetch(by, {
    clock: at,
    send: async (url, init) => (
      (sent = { url, init: { ...init, headers: new Headers(init.headers) } }),
      new Response()
    ),
  });
  await sign(url, {
    method: "POST",
    body,
    headers: { "content-type": "application/json", "x-deadline-ms": "900", "x-request-id": "r-1" },
    ...rest,
  });
  if (sent === undefined) throw new Error("nothing was sent");
  return sent;
}
const send = async ({ url, init }: { url: string; init: RequestInit }) =>
  await region.app.request(url, init);
async function readRejection(response: Response): Promise<[number, string]> {
  const { error } = (await response.json()) as { error: string };
  return [response.status, error];
}

describe("a region with keys", () => {
  beforeAll(() => startRegion());

  it("answers what is signed, with each verb, once", async () => {
    const request = await createSignedRequest();
    const response = await send(request);
    expect([response.status, await response.json()]).toMatchObject([
      200,
      { outputs: [{ data: [1, 0] }] },
    ]);
    expect(await readRejection(await send(request))).toEqual([
      401,
      expect.stringContaining("has been here before"),
    ]);
    expect(
      (
        await send(
          await createSignedRequest({
            url: "http://region.test/v2/models/mood/versions/1/ready",
            method: "GET",
            body: new Uint8Array(),
          }).then(({ url, init: { headers } }) => ({ url, init: { headers } })),
        )
      ).status,
    ).toBe(200);
    expect(
      (
        await send(
          await createSignedRequest({
            url: "http://region.test/v2/repository/index",
            body: encode('{"ready":true}'),
          }),
        )
      ).status,
    ).toBe(200);
    expect(
      (
        await send(
          await createSignedRequest({
            body: new Uint8Array(gzipSync(body)),
            headers: { "content-encoding": "gzip" },
          }),
        )
      ).status,
    ).toBe(200);
  });

  it("answers everyone who asks for its health, and nobody else", async () => {
    const statuses = await Promise.all(
      [
        "/v2/health/live",
        "/v2/health/ready",
        "/v2",
        "/v2/models/mood",
        "/v2/models/stats",
        "/metrics",
        "/v2/health/live/",
        "/nothing",
      ].map(async (path) => (await region.app.request(path)).status),
    );
    expect(statuses).toEqual([200, 200, 401, 401, 401, 401, 401, 401]);
    const response = await region.app.request(INFER, { method: "POST", body });
    expect(response.headers.get("www-authenticate")).toBe("Signature");
    expect(await readRejection(response)).toEqual([
      401,
      expect.stringMatching(/there is none\. .*EDGETIER_REGION_KEYS/),
    ]);
  });

  it("refuses a key that it does not have, and one that only says its name", async () => {
    expect(
      await readRejection(await send(await createSignedRequest({}, generateRegionKey("edge-2")))),
    ).toEqual([401, expect.stringContaining("key is not known")]);
    expect(
      await readRejection(await send(await createSignedRequest({}, generateRegionKey("edge-1")))),
    ).toEqual([401, expect.stringContaining("not that of this request")]);
  });

  it.each([
    [-30, 200],
    [-31, 401],
    [30, 200],
    [31, 401],
  ])("takes a clock that is off by %i s: %i", async (seconds, status) => {
    expect(
      (await send(await createSignedRequest({}, key, new ManualClock(NOW_MS + seconds * 1_000))))
        .status,
    ).toBe(status);
  });

  it("refuses a request that was signed for less than it says", async () => {
    const cryptoKey = await importHmacKey(key.secret);
    const all = ["@method", "@path", "@query", "content-digest", "content-type", "x-request-id"];
    const headers = new Headers({
      "content-type": "application/json",
      "x-request-id": "r",
      "content-digest": await computeContentDigest(body),
    });
    const parameters = { created: NOW_MS / 1_000, keyId: key.id, nonce: "n".repeat(16) };
    const statusWith = async (
      components: readonly string[],
      changed: Partial<typeof parameters> = {},
    ) => {
      const signature = await signMessage(
        { method: "POST", url: INFER, headers },
        components,
        { ...parameters, ...changed },
        cryptoKey,
        "any",
      );
      return (
        await send({
          url: INFER,
          init: {
            method: "POST",
            body,
            headers: new Headers([...headers, ...Object.entries(signature)]),
          },
        })
      ).status;
    };
    for (const left of all)
      expect([left, await statusWith(all.filter((name) => name !== left))]).toEqual([left, 401]);
    expect(await statusWith(all, { nonce: "short" })).toBe(401);
    expect(await statusWith(all, { nonce: "n".repeat(65) })).toBe(401);
    expect(await statusWith(all)).toBe(200);
  });

  it("reads no body of a request that it refuses", async () => {
    let pulled = 0;
    const endless = new ReadableStream(
      { pull: (controller) => (pulled++, controller.enqueue(new Uint8Array(1_024))) },
      { highWaterMark: 0 },
    );
    const init: RequestInit & { duplex: "half" } = {
      method: "POST",
      body: endless,
      duplex: "half",
    };
    expect((await region.app.request(INFER, init)).status).toBe(401);
    expect(pulled).toBe(0);
  });

  it(
    "refuses whatever was changed on the way: any byte of method, path, query, body, covered header, signature",
    { timeout: 60_000 },
    async () => {
      const covered = [
        "content-digest",
        "content-type",
        "x-deadline-ms",
        "x-request-id",
        "signature-input",
        "signature",
      ];
      const part = fc.constantFrom(
        "method",
        "path",
        "query",
        "body",
        "added",
        "removed",
        ...covered,
      );
      const changed = (value: string, at: number, by: number) => {
        const index = at % value.length;
        const code = 33 + ((value.charCodeAt(index) - 33 + 1 + (by % 93)) % 94); // another printable character
        return value.slice(0, index) + String.fromCharCode(code) + value.slice(index + 1);
      };
      await fc.assert(
        fc.asyncProperty(part, fc.nat(10_000), fc.nat(92), async (part, at, by) => {
          const { url, init } = await createSignedRequest();
          const { headers } = init;
          let target = url;
          let sent: RequestInit = init;
          if (part === "method")
            sent = { ...init, method: ["PUT", "PATCH", "DELETE", "post2"][at % 4] ?? "" };
          else if (part === "path")
            target = `http://region.test${changed("/v2/models/mood/versions/1/infer", 1 + (at % 30), by).replace(/[?#]/, "_")}`;
          else if (part === "query") target = `${url}?${changed("a", 0, by)}`;
          else if (part === "body")
            sent = {
              ...init,
              body: Uint8Array.from(body, (byte, index) =>
                index === at % body.byteLength ? byte ^ (1 + (by % 255)) : byte,
              ),
            };
          else if (part === "added")
            headers.set(
              ["content-encoding", "inference-header-content-length"][at % 2] ?? "",
              ["identity", "20"][at % 2] ?? "",
            );
          else if (part === "removed") headers.delete(covered[at % covered.length] ?? "");
          else headers.set(part, changed(headers.get(part) ?? "", at, by));
          const response = await region.app.request(target, sent);
          expect(response.status).toBe(401);
          expect((await send({ url, init: (await createSignedRequest()).init })).status).toBe(200);
        }),
        { numRuns: propertyRuns(300), seed: 20_261_122 },
      );
    },
  );
});

describe("while keys change", () => {
  it("several are believed, whatever their nonces", async () => {
    const next = generateRegionKey("edge-2");
    await startRegion({ keys: [key, next] });
    expect((await send(await createSignedRequest({}, key))).status).toBe(200);
    expect((await send(await createSignedRequest({}, next))).status).toBe(200);
  });
});

describe("a region that cannot remember more", () => {
  it("refuses new requests, and still every old one", async () => {
    await startRegion({ maxNonces: 2 });
    const first = await createSignedRequest();
    expect([(await send(first)).status, (await send(await createSignedRequest())).status]).toEqual([
      200, 200,
    ]);
    const refused = await send(await createSignedRequest());
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "1"]);
    expect((await send(first)).status).toBe(401);
    expect((await send(await createSignedRequest({}, generateRegionKey("edge-1")))).status).toBe(
      401,
    ); // forged ones take no place, and are told so
    clock.advance(31_000);
    expect((await send(await createSignedRequest())).status).toBe(200);
    expect((await send(first)).status).toBe(401);
  });
});

describe("on a port", () => {
  let server: RegionServer;
  beforeAll(async () => {
    await startRegion();
    server = await startRegionServer({
      fetch: region.app.fetch,
      lifecycle: region.lifecycle,
      host: "127.0.0.1",
      port: 0,
      drainTimeouts: { lingerMs: 0, timeoutMs: 1_000 },
    });
  });
  afterAll(() => server.stop());

  /** Sends it as it is written: `fetch` would bring the path into its normal form. */
  async function sendRaw(path: string, headers: Headers, bytes: Uint8Array): Promise<string> {
    const socket = connect(Number(new URL(server.url).port), "127.0.0.1");
    await once(socket, "connect");
    const lines = [
      `POST ${path} HTTP/1.1`,
      "host: region",
      "connection: close",
      `content-length: ${bytes.byteLength}`,
      ...[...headers].map(([name, value]) => `${name}: ${value}`),
    ];
    socket.write(`${lines.join("\r\n")}\r\n\r\n`);
    socket.write(bytes);
    return (await text(socket)).slice(9, 12);
  }

  it("takes a signed path only as it was signed, and a body only as it was digested", async () => {
    const path = "/v2/models/mood/versions/1/infer";
    const statusOf = async (at: string, bytes: Uint8Array = body) =>
      await sendRaw(
        at,
        (await createSignedRequest({ url: `http://elsewhere${path}` })).init.headers,
        bytes,
      );
    expect(await statusOf(path)).toBe("200");
    const others = [
      "/v2/models/moo%64/versions/1/infer",
      "/v2/models/x%2f..%2fmood/versions/1/infer",
      "/v2//models/mood/versions/1/infer",
      `${path}/`,
      `${path}?x`,
      "/v2/models/mood/versions/2/infer",
    ];
    for (const other of others) expect([other, await statusOf(other)]).toEqual([other, "401"]);
    // The server brings these into the form that was signed before anything routes by them.
    for (const same of [
      "/v2/models/x/../mood/versions/1/infer",
      "/v2/models/mood/versions/%2e/1/infer",
      `${path}?`,
    ])
      expect([same, await statusOf(same)]).toEqual([same, "200"]);
    expect(await statusOf(path, encode(createTextBody(["bad "])))).toBe("401");
    const large = await createSignedRequest({
      url: `http://elsewhere${path}`,
      body: encode(createTextBody(["good"]).padEnd(100_000)),
    });
    expect(
      await sendRaw(path, large.init.headers, encode(createTextBody(["good"]).padEnd(100_000))),
    ).toBe("200");
  });
});
