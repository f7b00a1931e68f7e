// Tests the effect of each fault of the proxy on a real client and a real server.
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type FaultProxy, startFaultProxy } from "../support/fault-proxy.ts";

const TEXT = "0123456789".repeat(100);
let server: Server;
let proxy: FaultProxy;

beforeEach(async () => {
  const answer: RequestListener = async (incoming, outgoing) => {
    const body = await buffer(incoming).catch(() => undefined);
    if (incoming.url === "/never") return;
    outgoing
      .writeHead(200, { "x-host": incoming.headers.host, "x-body": `${body?.byteLength}` })
      .end(incoming.url === "/empty" ? "" : TEXT);
  };
  server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  proxy = await startFaultProxy(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
});
afterEach(async () => {
  await proxy.close();
  server.closeAllConnections();
  server.close();
});

/** Messages of fetch about an ended connection. */
const BROKEN = /fetch failed|terminated/;

const get = async (path = "/x") => await (await fetch(`${proxy.url}${path}`)).text();

describe("without a fault", () => {
  it("passes bodies of both directions on, whole or in pieces, with the client's own host, and remembers what it saw", async () => {
    const pieces = new ReadableStream<Uint8Array>({
      start: (controller) => [1, 2, 3].forEach((size) => controller.enqueue(new Uint8Array(size))),
      pull: (controller) => controller.close(),
    });
    const init: RequestInit & { duplex: "half" } = { method: "POST", body: pieces, duplex: "half" };
    const responses = [
      await fetch(`${proxy.url}/a`, { method: "PUT", body: new Uint8Array(70_000) }),
      await fetch(`${proxy.url}/b?c`, init),
      await fetch(`${proxy.url}/empty`, { method: "HEAD" }),
    ];
    expect(responses.map(({ headers }) => [headers.get("x-host"), headers.get("x-body")])).toEqual(
      ["70000", "6", "0"].map((bytes) => [new URL(proxy.url).host, bytes]),
    );
    expect(await responses[0]?.text()).toBe(TEXT);
    expect(
      proxy.receivedRequests.map(
        ({ method, path, isFaulty: faulty }) => `${method} ${path} ${faulty}`,
      ),
    ).toEqual(["PUT /a false", "POST /b?c false", "HEAD /empty false"]);
    proxy.clearHistory();
    expect(proxy).toMatchObject({ receivedRequests: [], disconnectCount: 0 });
  });

  it("leaves the server when its client leaves", async () => {
    const left = new AbortController();
    const asking = fetch(`${proxy.url}/never`, { signal: left.signal });
    asking.catch(() => {});
    await expect.poll(() => proxy.receivedRequests.length).toBe(1);
    left.abort();
    await expect.poll(() => proxy.disconnectCount).toBe(1);
    const connections = () =>
      new Promise<number>((resolve) => server.getConnections((_, count) => resolve(count)));
    await expect.poll(connections).toBe(0);
  });
});

describe("with a fault", () => {
  it("rejects new connections and resets open ones", async () => {
    const asking = get("/never");
    asking.catch(() => {});
    await expect.poll(() => proxy.receivedRequests.length).toBe(1);
    proxy.fault = { kind: "resets" };
    await expect(asking).rejects.toThrow(BROKEN);
    await expect(get()).rejects.toThrow(BROKEN);
    proxy.fault = { kind: "none" };
    expect(await get()).toBe(TEXT);
  });

  it("hangs, or resets later", async () => {
    proxy.fault = { kind: "hangs" };
    await expect(fetch(proxy.url, { signal: AbortSignal.timeout(100) })).rejects.toThrow(/timeout/);
    proxy.fault = { kind: "halfOpen", resetAfterMs: 50 };
    const startedAtMs = performance.now();
    await expect(get()).rejects.toThrow(BROKEN);
    expect(performance.now() - startedAtMs).toBeGreaterThan(45);
  });

  it("answers itself, for some requests only", async () => {
    proxy.fault = { kind: "status", status: 500, body: "no", matching: /^GET \/a/ };
    const response = await fetch(`${proxy.url}/a`);
    expect({
      status: response.status,
      body: await response.text(),
      other: await get("/b"),
    }).toEqual({
      status: 500,
      body: "no",
      other: TEXT,
    });
    expect(proxy.receivedRequests.map(({ isFaulty: faulty }) => faulty)).toEqual([true, false]);
  });

  it("cuts answers off, or changes a byte; what has no body is passed on", async () => {
    proxy.fault = { kind: "truncates" };
    await expect(get()).rejects.toThrow(BROKEN);
    expect(await get("/empty")).toBe("");
    proxy.fault = { kind: "corrupts", seed: 3 };
    const bytes = new Uint8Array(await (await fetch(proxy.url)).arrayBuffer());
    expect([...bytes].filter((byte, index) => byte !== TEXT.charCodeAt(index))).toHaveLength(1);
  });

  it("is as far away as it is told, also without a fault", async () => {
    proxy.latencyMs = 30;
    const startedAtMs = performance.now();
    expect(await get()).toBe(TEXT);
    expect(performance.now() - startedAtMs).toBeGreaterThanOrEqual(29);
  });

  it("slows down the same share of requests with the same seed", async () => {
    const slow = async () => {
      proxy.clearHistory();
      proxy.fault = { kind: "slow", delayMs: 1, share: 0.3, seed: 7 };
      for (let count = 0; count < 20; count++) await get();
      return proxy.receivedRequests.map(({ isFaulty: faulty }) => faulty);
    };
    const first = await slow();
    expect(await slow()).toEqual(first);
    expect(new Set(first)).toEqual(new Set([true, false]));
  });
});
