// Signature authentication of a region: a signed request passes once; changed, forged and replayed requests are rejected.
// One file, because all cases share the region and its signed requests.
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
import { generateRegionKey, type RegionKey } from "../../../src/region/region-keys.ts";
import {
  createSignatureAuth,
  type SignatureAuthOptions,
} from "../../../src/region/server/auth/signature-auth.ts";
import { startRegionServer, type RegionServer } from "../../../src/region/server/server.ts";
import { createSignedFetch, type RegionRequestInit } from "../../../src/region/signed-fetch.ts";
import { propertyRuns } from "../../support/property-runs.ts";
import {
  createRegionFixture,
  publishMoodModel,
  createTextBody,
  type RegionFixture,
} from "../region-fixture.ts";

const NOW_MS = 1_800_000_000_000;
const INFER = "http://region.test/v2/models/mood/versions/1/infer";
const key = generateRegionKey("edge-1");
const encode = (value: string) => new TextEncoder().encode(value);
const body = encode(createTextBody(["good"]));

let clock: ManualClock;
let region: RegionFixture;

/** Starts a region whose replay protection is empty. */
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

/** Creates the request that an edge with the key `signer` sends. */
async function createSignedRequest(
  overrides: RegionRequestInit & { readonly url?: string } = {},
  signer: RegionKey = key,
  signerClock = clock,
): Promise<SignedRequest> {
  const { url = INFER, ...init } = overrides;
  let sent: SignedRequest | undefined;
  const signedFetch = createSignedFetch(signer, {
    clock: signerClock,
    send: async (url, init) => {
      sent = { url, init: { ...init, headers: new Headers(init.headers) } };
      return new Response();
    },
  });
  await signedFetch(url, {
    method: "POST",
    body,
    headers: { "content-type": "application/json", "x-deadline-ms": "900", "x-request-id": "r-1" },
    ...init,
  });
  if (sent === undefined) throw new Error("nothing was sent");
  return sent;
}

interface SignedRequest {
  readonly url: string;
  readonly init: RequestInit & { readonly headers: Headers };
}

const send = async ({ url, init }: { readonly url: string; readonly init: RequestInit }) =>
  await region.app.request(url, init);
const sendSigned = async (...args: Parameters<typeof createSignedRequest>) =>
  await send(await createSignedRequest(...args));

/** Status, challenge and body of every response to a request without a valid signature. */
const SIGNATURE_REJECTION = {
  status: 401,
  challenge: "Signature",
  body: { error: expect.stringContaining("EDGETIER_REGION_KEYS") },
};
const readRejection = async (response: Response) => ({
  status: response.status,
  challenge: response.headers.get("www-authenticate"),
  body: await response.json(),
});

describe("signed requests to a region with keys", () => {
  beforeAll(() => startRegion());

  it("are answered once each", async () => {
    const request = await createSignedRequest();
    const response = await send(request);
    expect(response.status).toBe(200);
    expect(await response.json()).toMatchObject({ outputs: [{ data: [1, 0] }] });
    expect(await readRejection(await send(request))).toEqual(SIGNATURE_REJECTION);
  });

  it("are answered with each method and encoding", async () => {
    const { url, init } = await createSignedRequest({
      url: "http://region.test/v2/models/mood/versions/1/ready",
      method: "GET",
      body: new Uint8Array(),
    });
    expect(await send({ url, init: { headers: init.headers } })).toHaveProperty("status", 200);
    expect(
      await sendSigned({
        url: "http://region.test/v2/repository/index",
        body: encode('{"ready":true}'),
      }),
    ).toHaveProperty("status", 200);
    expect(
      await sendSigned({
        body: new Uint8Array(gzipSync(body)),
        headers: { "content-encoding": "gzip" },
      }),
    ).toHaveProperty("status", 200);
  });

  it("are rejected when the key is unknown, or only its id is known", async () => {
    expect(await readRejection(await sendSigned({}, generateRegionKey("edge-2")))).toEqual(
      SIGNATURE_REJECTION,
    );
    expect(await readRejection(await sendSigned({}, generateRegionKey("edge-1")))).toEqual(
      SIGNATURE_REJECTION,
    );
  });

  it.each([
    { seconds: -30, status: 200 },
    { seconds: -31, status: 401 },
    { seconds: 30, status: 200 },
    { seconds: 31, status: 401 },
  ])("get $status from a clock that is off by $seconds s", async ({ seconds, status }) => {
    const signerClock = new ManualClock(NOW_MS + seconds * 1_000);
    expect(await sendSigned({}, key, signerClock)).toHaveProperty("status", status);
  });
});

describe("unsigned requests to a region with keys", () => {
  beforeAll(() => startRegion());

  it.each([
    { path: "/v2/health/live", status: 200 },
    { path: "/v2/health/ready", status: 200 },
    { path: "/v2", status: 401 },
    { path: "/v2/models/mood", status: 401 },
    { path: "/v2/models/stats", status: 401 },
    { path: "/metrics", status: 401 },
    { path: "/v2/health/live/", status: 401 },
    { path: "/nothing", status: 401 },
  ])("get $status for $path", async ({ path, status }) => {
    expect(await region.app.request(path)).toHaveProperty("status", status);
  });

  it("get a challenge and the setting of the keys", async () => {
    expect(await readRejection(await region.app.request(INFER, { method: "POST", body }))).toEqual(
      SIGNATURE_REJECTION,
    );
  });

  it("are rejected before their body is read", async () => {
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
});

describe("the components of a signature", () => {
  const required = ["@method", "@path", "@query", "content-digest", "content-type", "x-request-id"];
  const parameters = { created: NOW_MS / 1_000, keyId: key.id, nonce: "n".repeat(16) };
  beforeAll(() => startRegion());

  async function statusWith(
    components: readonly string[],
    overrides: Partial<typeof parameters> = {},
  ): Promise<number> {
    const headers = new Headers({
      "content-type": "application/json",
      "x-request-id": "r",
      "content-digest": await computeContentDigest(body),
    });
    const signature = await signMessage(
      { method: "POST", url: INFER, headers },
      components,
      { ...parameters, ...overrides },
      await importHmacKey(key.secret),
      "any",
    );
    const signedHeaders = new Headers([...headers, ...Object.entries(signature)]);
    const response = await send({
      url: INFER,
      init: { method: "POST", body, headers: signedHeaders },
    });
    return response.status;
  }

  it.each(required)("must include %s", async (missing) => {
    expect(await statusWith(required.filter((name) => name !== missing))).toBe(401);
  });

  it("must include a nonce of 16 to 64 characters", async () => {
    expect(await statusWith(required, { nonce: "short" })).toBe(401);
    expect(await statusWith(required, { nonce: "n".repeat(65) })).toBe(401);
    expect(await statusWith(required)).toBe(200);
  });
});

const coveredHeaders = [
  "content-digest",
  "content-type",
  "x-deadline-ms",
  "x-request-id",
  "signature-input",
  "signature",
];
const changedPart = fc.constantFrom(
  "method",
  "path",
  "query",
  "body",
  "added",
  "removed",
  ...coveredHeaders,
);
/** Replaces the character at `at` by another printable one. */
function changeCharacter(value: string, at: number, by: number): string {
  const index = at % value.length;
  const code = 33 + ((value.charCodeAt(index) - 33 + 1 + (by % 93)) % 94);
  return value.slice(0, index) + String.fromCharCode(code) + value.slice(index + 1);
}

/** Changes one part of the request; `at` and `by` choose the position and the new value. */
function changeRequest(
  { url, init }: SignedRequest,
  part: string,
  { at, by }: { readonly at: number; readonly by: number },
): { url: string; init: RequestInit } {
  const { headers } = init;
  switch (part) {
    case "method":
      return {
        url,
        init: { ...init, method: ["PUT", "PATCH", "DELETE", "post2"][at % 4] ?? "" },
      };
    case "path": {
      const path = changeCharacter("/v2/models/mood/versions/1/infer", 1 + (at % 30), by);
      return { url: `http://region.test${path.replace(/[?#]/, "_")}`, init };
    }
    case "query":
      return { url: `${url}?${changeCharacter("a", 0, by)}`, init };
    case "body": {
      const changedBody = Uint8Array.from(body, (byte, index) =>
        index === at % body.byteLength ? byte ^ (1 + (by % 255)) : byte,
      );
      return { url, init: { ...init, body: changedBody } };
    }
    case "added":
      headers.set(
        ["content-encoding", "inference-header-content-length"][at % 2] ?? "",
        ["identity", "20"][at % 2] ?? "",
      );
      return { url, init };
    case "removed":
      headers.delete(coveredHeaders[at % coveredHeaders.length] ?? "");
      return { url, init };
    default:
      headers.set(part, changeCharacter(headers.get(part) ?? "", at, by));
      return { url, init };
  }
}

describe("a request that was changed in transit", () => {
  beforeAll(() => startRegion());

  it(
    "is rejected for any changed byte of method, path, query, body, covered header and signature",
    { timeout: 60_000 },
    async () => {
      await fc.assert(
        fc.asyncProperty(changedPart, fc.nat(10_000), fc.nat(92), async (part, at, by) => {
          const changed = changeRequest(await createSignedRequest(), part, { at, by });
          expect((await send(changed)).status).toBe(401);
          expect((await sendSigned()).status).toBe(200);
        }),
        { numRuns: propertyRuns(300), seed: 20_261_122 },
      );
    },
  );
});

describe("a region with several keys", () => {
  it("accepts requests signed with each", async () => {
    const next = generateRegionKey("edge-2");
    await startRegion({ keys: [key, next] });
    expect((await sendSigned({}, key)).status).toBe(200);
    expect((await sendSigned({}, next)).status).toBe(200);
  });
});

describe("a region whose replay protection is full", () => {
  it("rejects new requests, and still rejects replays", async () => {
    await startRegion({ maxNonces: 2 });
    const first = await createSignedRequest();
    expect((await send(first)).status).toBe(200);
    expect((await sendSigned()).status).toBe(200);
    const overflow = await sendSigned();
    expect(overflow.status).toBe(503);
    expect(overflow.headers.get("retry-after")).toBe("1");
    expect((await send(first)).status).toBe(401);
    // A forged request takes no place in the store, and its sender learns that it is forged.
    expect((await sendSigned({}, generateRegionKey("edge-1"))).status).toBe(401);
    clock.advance(31_000);
    expect((await sendSigned()).status).toBe(200);
    expect((await send(first)).status).toBe(401);
  });
});

/** Sends the path as it is written; `fetch` would normalize it. */
async function sendRaw(
  serverUrl: string,
  { path, headers, bytes }: { path: string; headers: Headers; bytes: Uint8Array },
): Promise<string> {
  const socket = connect(Number(new URL(serverUrl).port), "127.0.0.1");
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

describe("a region on a port", () => {
  const signedPath = "/v2/models/mood/versions/1/infer";
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

  /** Signs `signedBody` for the signed path, and sends `bytes` to `path` with these headers. */
  async function statusOf(path: string, bytes = body, signedBody = body): Promise<string> {
    const { init } = await createSignedRequest({
      url: `http://elsewhere${signedPath}`,
      body: signedBody,
    });
    return await sendRaw(server.url, { path, headers: init.headers, bytes });
  }

  it.each([
    "/v2/models/moo%64/versions/1/infer",
    "/v2/models/x%2f..%2fmood/versions/1/infer",
    "/v2//models/mood/versions/1/infer",
    `${signedPath}/`,
    `${signedPath}?x`,
    "/v2/models/mood/versions/2/infer",
  ])("rejects a signature for another path at %s", async (path) => {
    expect(await statusOf(path)).toBe("401");
  });

  // The server normalizes these paths to the signed form before any routing.
  it.each([
    signedPath,
    "/v2/models/x/../mood/versions/1/infer",
    "/v2/models/mood/versions/%2e/1/infer",
    `${signedPath}?`,
  ])("accepts the signature at %s", async (path) => {
    expect(await statusOf(path)).toBe("200");
  });

  it("accepts only the body that was digested", async () => {
    expect(await statusOf(signedPath, encode(createTextBody(["bad "])))).toBe("401");
    const largeBody = encode(createTextBody(["good"]).padEnd(100_000));
    expect(await statusOf(signedPath, largeBody, largeBody)).toBe("200");
  });
});
