// Hono advisories: one test for each advisory that concerns a part in use or available by configuration. The list covers Hono
// since 4.0 and @hono/node-server, up to November 2026. test/edge/body-limits.test.ts covers the Worker's body limits.
//
// The other advisories concern unused parts. The last test fails if one of them is used:
// - serve-static: GHSA-3mpf-rcc7-5347, GHSA-w332-q679-j88p, GHSA-q5qw-h33p-qvwr, GHSA-wmmm-f939-6g9c, GHSA-wwfh-h76j-fc44; in
//   node-server GHSA-rjq5-w47x-x359, GHSA-wc8c-qw6v-h7f6, GHSA-92pp-h63x-v22m, GHSA-frvp-7c67-39w9
// - cookies: GHSA-5pq2-9x2x-5p6w, GHSA-26pp-8wgv-hjvm, GHSA-r5rp-j6wh-rvv4, GHSA-3hrh-pfw6-9m5x
// - the cache middleware: GHSA-6wqw-2p9w-4vw4, GHSA-p77w-8qqv-26rm (the edge's own caches never store a private response)
// - IP restriction and addresses: GHSA-r354-f388-2fhh, GHSA-xpcf-pg52-r92g, GHSA-xrhx-7g5j-rcj5, GHSA-xh87-mx6m-69f3 (AWS ALB)
// - CSRF protection: GHSA-rpfr-3m35-5vx5, GHSA-2234-fmw7-43wr
// - basic and bearer authentication's comparison: GHSA-gq3j-xvxp-8hrf
// - JSX: GHSA-9r54-q6cx-xmh5, GHSA-458j-xx4x-4375, GHSA-69xw-7hcm-h432, GHSA-qp7p-654g-cw7p, GHSA-f23p-vx2j-j53r
// - parseBody: GHSA-v8w9-8mx6-g223, GHSA-g6gw-c38x-mqfc. app.mount: GHSA-2gcr-mfcq-wcc3. Server-sent events: GHSA-p6xx-57qc-3wxr
// - static site generation: GHSA-xf4j-xp2r-rqqx, GHSA-gqvv-2mrq-wpjv. Language: GHSA-54fx-42gc-7vw4. Proxy: GHSA-79qm-7rj5-m7r9
// - AWS Lambda: GHSA-rv63-4mwf-qqc2, GHSA-wgpf-jwqj-8h8p, GHSA-j6c9-x7qj-28xf
import { once } from "node:events";
import { glob, readFile } from "node:fs/promises";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { Hono } from "hono";
import { cors } from "hono/cors";
import { jwt, sign, verify } from "hono/jwt";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readRequestBody } from "../../src/protocol/read-request-body.ts";
import { generateRegionKey } from "../../src/region/region-keys.ts";
import { createSignatureAuth } from "../../src/region/server/auth/signature-auth.ts";
import { type RegionServer, startRegionServer } from "../../src/region/server/server.ts";
import {
  createCountingRuntime,
  createRegionFixture,
  publishMoodModel,
  type RegionFixture,
  createTextBody,
} from "../region/region-fixture.ts";

const INFER = "/v2/models/mood/versions/1/infer";
const { counts, runtime } = createCountingRuntime();
let open: RegionFixture;
let server: RegionServer;
let guarded: RegionServer;

beforeAll(async () => {
  const start = async (region: RegionFixture) =>
    await startRegionServer({
      fetch: region.app.fetch,
      lifecycle: region.lifecycle,
      host: "127.0.0.1",
      port: 0,
      drainTimeouts: { lingerMs: 0, timeoutMs: 1_000 },
    });
  open = createRegionFixture({ runtime, maxBodyBytes: 1_024 });
  await publishMoodModel(open.store);
  await open.repository.getModel({ model: "mood", target: { kind: "version", version: 1 } });
  server = await start(open);
  guarded = await start(
    createRegionFixture({
      authentication: await createSignatureAuth({
        keys: [generateRegionKey("k")],
        publicPaths: ["/v2/health/live"],
      }),
    }),
  );
});
afterAll(() => Promise.all([server.stop(), guarded.stop()]));

/** Writes a raw request. @returns the status, or undefined if the server closed the connection */
async function sendRaw({ url }: RegionServer, request: string): Promise<number | undefined> {
  const socket = connect(Number(new URL(url).port), "127.0.0.1");
  await once(socket, "connect");
  socket.write(request);
  const status = Number((await text(socket).catch(() => "")).slice(9, 12));
  return status === 0 ? undefined : status;
}
const formatGet = (target: string, host = "region") =>
  `GET ${target} HTTP/1.1\r\nhost: ${host}\r\nconnection: close\r\n\r\n`;

describe("the region's server and router", () => {
  it("GHSA-9hp6-4448-45g2: require authentication for every form of a target", async () => {
    for (const target of [
      "http://region/v2/models/mood",
      "http:///v2/models/mood",
      "http:/v2/models/mood",
      "http://v2/health/live/../../v2/models/mood",
      "http://region/v2/health/live/../../models/mood",
      "//v2/models/mood",
      "/v2/health/live%2f..%2f..%2fmodels%2fmood",
      "/v2/health/live/../../models/mood",
      "x:/v2/models/mood",
    ]) {
      const status = await sendRaw(guarded, formatGet(target));
      expect([400, 401, 404, undefined], `${target}: ${status}`).toContain(status);
    }
    expect(await sendRaw(guarded, formatGet("/v2/health/live"))).toBe(200);
  });

  it("GHSA-hgxw-5xg3-69jx: do not hang on an invalid host", async () => {
    for (const host of ["", "/", "a b", "[::1", "a:99999999", "\u00ff"])
      expect(await sendRaw(server, formatGet("/v2/models/stats", host)), host).not.toBe(500);
    expect(await sendRaw(server, formatGet("/v2/health/live"))).toBe(200);
  });

  it("GHSA-crvj-82cr-hjcx: do not read a query from a fragment", async () => {
    const app = new Hono().get("/p", (c) =>
      c.json({ query: c.req.query(), b: c.req.query("b"), a: c.req.queries("a") }),
    );
    for (const [url, expected] of [
      ["/p?a=1#&b=2", { query: { a: "1" }, a: ["1"] }],
      ["/p#?a=1", { query: {} }],
    ] as const) {
      expect(await (await app.request(new Request(`http://edge${url}`))).json()).toEqual(expected);
    }
  });
});

describe("the body limit", () => {
  const tooLong = createTextBody(["good"]).padEnd(5_000);

  it("GHSA-92vj-g62v-jqhh: applies if the length is shorter than the chunks", async () => {
    const chunked = `${tooLong.length.toString(16)}\r\n${tooLong}\r\n0\r\n\r\n`;
    const before = counts.runs;
    const status = await sendRaw(
      server,
      `POST ${INFER} HTTP/1.1\r\nhost: region\r\nconnection: close\r\ncontent-length: 10\r\ntransfer-encoding: chunked\r\n\r\n${chunked}`,
    );
    expect([400, 413]).toContain(status);
    expect(counts.runs).toBe(before);
    const request = new Request("http://region/", {
      method: "POST",
      body: tooLong,
      headers: { "content-length": "10", "transfer-encoding": "chunked" },
    });
    await expect(readRequestBody(request, 1_024)).rejects.toMatchObject({ code: "body_too_large" });
  });

  it("GHSA-9vqf-7f2p-gf9v: applies before inference to a body without a length", async () => {
    const before = counts.runs;
    const slow = new ReadableStream({
      async pull(controller) {
        await new Promise(setImmediate);
        controller.enqueue(new TextEncoder().encode(tooLong.slice(0, 300)));
      },
    });
    const init: RequestInit & { duplex: "half" } = { method: "POST", body: slow, duplex: "half" };
    expect((await fetch(`${server.url}${INFER}`, init)).status).toBe(413);
    expect(counts.runs).toBe(before);
  });
});

describe("CORS", () => {
  const request = async (
    options: Parameters<typeof cors>[0],
    headers: Record<string, string>,
    method = "GET",
  ) =>
    await new Hono()
      .use(cors(options))
      .get("/", (c) => c.text(""))
      .request("/", { method, headers });

  it("GHSA-88fw-hqm2-52qc: does not reflect the origin for * with credentials", async () => {
    const { headers } = await request(
      { origin: "*", credentials: true },
      { origin: "https://evil.test" },
    );
    expect(headers.get("access-control-allow-origin")).not.toBe("https://evil.test");
  });

  it("GHSA-q7jf-gf43-6x6p: does not reflect the client's Vary header", async () => {
    const { headers } = await request(
      { origin: ["https://app.test"] },
      { origin: "https://app.test", vary: "x-evil" },
      "OPTIONS",
    );
    expect(headers.get("access-control-allow-origin")).toBe("https://app.test");
    expect(headers.get("vary")).not.toContain("x-evil");
  });

  it("GHSA-8j4g-w8fx-2239: parses a long list of headers in linear time", async () => {
    const measurePreflightMs = async (spaces: number): Promise<number> => {
      const startedMs = performance.now();
      await request(
        { origin: "*" },
        {
          origin: "https://app.test",
          "access-control-request-method": "GET",
          "access-control-request-headers": `a${" ".repeat(spaces)}b`,
        },
        "OPTIONS",
      );
      return performance.now() - startedMs;
    };
    // A quadratic parser takes 400 times as long for 20 times the length. The fixed allowance absorbs timer noise.
    const shortMs = await measurePreflightMs(3_000);
    expect(await measurePreflightMs(60_000)).toBeLessThan(40 * shortMs + 500);
  });
});

describe("JSON Web Tokens", () => {
  const REJECTED_SIGNATURE = expect.stringMatching(/^Jwt(Algorithm|Header|TokenSignature)/);
  const base64url = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");

  it("GHSA-f67f-6cw9-8mq4, GHSA-3vhc-576x-3qv4: do not choose their algorithm", async () => {
    const token = await sign({ sub: "a" }, "secret", "HS256");
    expect(await verify(token, "secret", "HS256")).toEqual({ sub: "a" });
    await expect(verify(token, "secret", "HS384")).rejects.toMatchObject({
      name: REJECTED_SIGNATURE,
    });
    await expect(
      verify(
        `${base64url({ alg: "none", typ: "JWT" })}.${base64url({ sub: "a" })}.`,
        "secret",
        "HS256",
      ),
    ).rejects.toMatchObject({ name: REJECTED_SIGNATURE });
    await expect(
      verify(await sign({ sub: "a" }, "secret", "HS512"), "secret", "HS256"),
    ).rejects.toMatchObject({ name: REJECTED_SIGNATURE });
  });

  it("GHSA-m732-5p4w-x69g: are rejected for another audience", async () => {
    const token = await sign({ sub: "a", aud: "other" }, "secret", "HS256");
    await expect(verify(token, "secret", { alg: "HS256", aud: "edge" })).rejects.toMatchObject({
      name: "JwtTokenAudience",
    });
  });

  it("GHSA-hm8q-7f3q-5f36: are rejected if times are not numbers", async () => {
    for (const claim of ["exp", "nbf", "iat"]) {
      const token = await sign(
        { [claim]: "never" } as Parameters<typeof sign>[0],
        "secret",
        "HS256",
      );
      await expect(verify(token, "secret", "HS256")).rejects.toMatchObject({
        name: expect.stringMatching(/^Jwt/),
      });
    }
  });

  it("GHSA-f577-qrjj-4474: are accepted only as Bearer", async () => {
    const app = new Hono()
      .use(jwt({ secret: "secret", alg: "HS256" }))
      .get("/", (c) => c.text("in"));
    const token = await sign({ sub: "a" }, "secret", "HS256");
    const status = async (scheme: string) =>
      (await app.request("/", { headers: { authorization: `${scheme} ${token}` } })).status;
    expect(await status("Bearer")).toBe(200);
    expect(await status("Basic")).toBe(401);
    expect(await status("Signature")).toBe(401);
  });
});

it("uses only the parts of Hono that this list covers", async () => {
  const known = new Set([
    "hono",
    "hono/accepts",
    "hono/cors",
    "hono/etag",
    "hono/factory",
    "hono/html",
    "hono/http-exception",
    "hono/jwt",
    "hono/request-id",
    "hono/route",
    "hono/secure-headers",
    "hono/utils/http-status",
    "hono/utils/jwt/jwt",
    "@hono/node-server",
  ]);
  const used = new Set<string>();
  for await (const file of glob(["src/**/*.ts", "functions/**/*.ts"])) {
    for (const [, part = ""] of (await readFile(file, "utf8")).matchAll(/from "(@?hono[^"]*)"/g))
      used.add(part);
  }
  expect(used.size).toBeGreaterThan(3);
  expect([...used].filter((part) => !known.has(part))).toEqual([]);
});
