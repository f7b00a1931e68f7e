// Every advisory that was published about Hono since 4.0 and about @hono/node-server (to November 2026), as far as it concerns a
// part that is used here or may be switched on: one test each, by its identifier. test/edge/body-limits.test.ts has the Worker's.
//
// The others are about parts that are not used; the last test fails when one comes to be:
// - serve-static: GHSA-3mpf-rcc7-5347, GHSA-w332-q679-j88p, GHSA-q5qw-h33p-qvwr, GHSA-wmmm-f939-6g9c, GHSA-wwfh-h76j-fc44; in
//   node-server GHSA-rjq5-w47x-x359, GHSA-wc8c-qw6v-h7f6, GHSA-92pp-h63x-v22m, GHSA-frvp-7c67-39w9
// - cookies: GHSA-5pq2-9x2x-5p6w, GHSA-26pp-8wgv-hjvm, GHSA-r5rp-j6wh-rvv4, GHSA-3hrh-pfw6-9m5x
// - the cache middleware: GHSA-6wqw-2p9w-4vw4, GHSA-p77w-8qqv-26rm (the edge's own caches never hold a private answer)
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
import { type RegionServer, startRegionServer } from "../../src/region/server/server.ts";
import { createSignatureAuth } from "../../src/region/server/auth/signature-auth.ts";
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

/** A request as it is written. @returns its answer's status, or undefined where the connection was closed on it */
async function statusOf({ url }: RegionServer, request: string): Promise<number | undefined> {
  const socket = connect(Number(new URL(url).port), "127.0.0.1");
  await once(socket, "connect");
  socket.write(request);
  const status = Number((await text(socket).catch(() => "")).slice(9, 12));
  return status === 0 ? undefined : status;
}
const ask = (target: string, host = "region") =>
  `GET ${target} HTTP/1.1\r\nhost: ${host}\r\nconnection: close\r\n\r\n`;

describe("what the region's server and the router make of a request", () => {
  it("GHSA-9hp6-4448-45g2: no form of a target leads past the gate", async () => {
    const refused = [400, 401, 404, undefined];
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
      expect([target, refused.includes(await statusOf(guarded, ask(target)))]).toEqual([
        target,
        true,
      ]);
    }
    expect(await statusOf(guarded, ask("/v2/health/live"))).toBe(200);
  });

  it("GHSA-hgxw-5xg3-69jx: a host that is none hangs nothing", async () => {
    for (const host of ["", "/", "a b", "[::1", "a:99999999", "\u00ff"])
      expect([host, (await statusOf(server, ask("/v2/models/stats", host))) !== 500]).toEqual([
        host,
        true,
      ]);
    expect(await statusOf(server, ask("/v2/health/live"))).toBe(200);
  });

  it("GHSA-crvj-82cr-hjcx: what follows a fragment is no query", async () => {
    const app = new Hono().get("/p", (c) =>
      c.json([c.req.query(), c.req.query("b") ?? null, c.req.queries("a") ?? null]),
    );
    for (const [url, expected] of [
      ["/p?a=1#&b=2", [{ a: "1" }, null, ["1"]]],
      ["/p#?a=1", [{}, null, null]],
    ] as const) {
      expect(await (await app.request(new Request(`http://edge${url}`))).json()).toEqual(expected);
    }
  });
});

describe("a body's limit", () => {
  const tooLong = createTextBody(["good"]).padEnd(5_000);

  it("GHSA-92vj-g62v-jqhh: holds where the length says less than the chunks", async () => {
    const chunked = `${tooLong.length.toString(16)}\r\n${tooLong}\r\n0\r\n\r\n`;
    const before = counts.runs;
    const status = await statusOf(
      server,
      `POST ${INFER} HTTP/1.1\r\nhost: region\r\nconnection: close\r\ncontent-length: 10\r\ntransfer-encoding: chunked\r\n\r\n${chunked}`,
    );
    expect([[400, 413].includes(status ?? 0), counts.runs]).toEqual([true, before]);
    const request = new Request("http://region/", {
      method: "POST",
      body: tooLong,
      headers: { "content-length": "10", "transfer-encoding": "chunked" },
    });
    await expect(readRequestBody(request, 1_024)).rejects.toMatchObject({ code: "body_too_large" });
  });

  it("GHSA-9vqf-7f2p-gf9v: is decided before anything is computed, for a body without a length", async () => {
    const before = counts.runs;
    const slow = new ReadableStream({
      async pull(controller) {
        await new Promise(setImmediate);
        controller.enqueue(new TextEncoder().encode(tooLong.slice(0, 300)));
      },
    });
    const init: RequestInit & { duplex: "half" } = { method: "POST", body: slow, duplex: "half" };
    expect([(await fetch(`${server.url}${INFER}`, init)).status, counts.runs]).toEqual([
      413,
      before,
    ]);
  });
});

describe("CORS", () => {
  const answer = async (
    options: Parameters<typeof cors>[0],
    headers: Record<string, string>,
    method = "GET",
  ) =>
    await new Hono()
      .use(cors(options))
      .get("/", (c) => c.text(""))
      .request("/", { method, headers });

  it("GHSA-88fw-hqm2-52qc: every origin with credentials is none in particular", async () => {
    const { headers } = await answer(
      { origin: "*", credentials: true },
      { origin: "https://evil.test" },
    );
    expect(headers.get("access-control-allow-origin")).not.toBe("https://evil.test");
  });

  it("GHSA-q7jf-gf43-6x6p: a client's own Vary does not come back", async () => {
    const { headers } = await answer(
      { origin: ["https://app.test"] },
      { origin: "https://app.test", vary: "x-evil" },
      "OPTIONS",
    );
    expect([headers.get("access-control-allow-origin"), headers.get("vary")]).toEqual([
      "https://app.test",
      expect.not.stringContaining("x-evil"),
    ]);
  });

  it("GHSA-8j4g-w8fx-2239: a long list of headers takes no long time", async () => {
    const startedMs = performance.now();
    await answer(
      { origin: "*" },
      {
        origin: "https://app.test",
        "access-control-request-method": "GET",
        "access-control-request-headers": `a${" ".repeat(60_000)}b`,
      },
      "OPTIONS",
    );
    expect(performance.now() - startedMs).toBeLessThan(1_000); // quadratic, it would be ten times that
  });
});

describe("JSON Web Tokens", () => {
  const base64url = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");

  it("GHSA-f67f-6cw9-8mq4, GHSA-3vhc-576x-3qv4: a token does not choose its algorithm", async () => {
    const token = await sign({ sub: "a" }, "secret", "HS256");
    expect(await verify(token, "secret", "HS256")).toEqual({ sub: "a" });
    await expect(verify(token, "secret", "HS384")).rejects.toThrow(/alg|signature/i);
    await expect(
      verify(
        `${base64url({ alg: "none", typ: "JWT" })}.${base64url({ sub: "a" })}.`,
        "secret",
        "HS256",
      ),
    ).rejects.toThrow(/alg|signature|invalid/i);
    await expect(
      verify(await sign({ sub: "a" }, "secret", "HS512"), "secret", "HS256"),
    ).rejects.toThrow(/alg|signature/i);
  });

  it("GHSA-m732-5p4w-x69g: the audience counts", async () => {
    const token = await sign({ sub: "a", aud: "other" }, "secret", "HS256");
    await expect(verify(token, "secret", { alg: "HS256", aud: "edge" })).rejects.toThrow(/aud/i);
  });

  it("GHSA-hm8q-7f3q-5f36: times are numbers", async () => {
    for (const claim of ["exp", "nbf", "iat"]) {
      const token = await sign(
        { [claim]: "never" } as Parameters<typeof sign>[0],
        "secret",
        "HS256",
      );
      await expect(verify(token, "secret", "HS256")).rejects.toThrow(
        /token|claim|invalid|expected/i,
      );
    }
  });

  it("GHSA-f577-qrjj-4474: they come as Bearer, and as nothing else", async () => {
    const app = new Hono()
      .use(jwt({ secret: "secret", alg: "HS256" }))
      .get("/", (c) => c.text("in"));
    const token = await sign({ sub: "a" }, "secret", "HS256");
    const status = async (scheme: string) =>
      (await app.request("/", { headers: { authorization: `${scheme} ${token}` } })).status;
    expect([await status("Bearer"), await status("Basic"), await status("Signature")]).toEqual([
      200, 401, 401,
    ]);
  });
});

it("no other parts of Hono are used than this list was made for", async () => {
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
