// The pool over regions on the network, real servers all: slow ones, dead ones, hanging ones, and their return.
import { createServer, type RequestListener } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { systemClock } from "../../../src/core/clock.ts";
import { encodeInferResponse } from "../../../src/protocol/open-inference.ts";
import {
  createRegionPool,
  type RegionEvent,
  type RegionPoolOptions,
} from "../../../src/region/client/region-pool.ts";
import { createOipHttpRegionClient } from "../../../src/region/drivers/oip-http.ts";
import { startTcpProxy, type TcpProxy } from "../../support/tcp-proxy.ts";
import { respondingRegionOf, createRegionRequest } from "./scripted-region.ts";

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of cleanups.splice(0)) await close();
});

interface Server {
  readonly url: string;
  answersAfterMs: (call: number) => number;
  calls: number;
  /** Calls whose client left before the answer. */
  left: number;
}

/** A server of the protocol that says its own name. */
async function startServer(name: string): Promise<Server> {
  const data = [new TextEncoder().encode(name)];
  const body = encodeInferResponse(
    { model: "mood", version: "1", outputs: { from: { datatype: "BYTES", shape: [1], data } } },
    () => false,
  ).body;
  const listener: RequestListener = (incoming, response) => {
    incoming.resume();
    if (incoming.url === "/v2/health/ready") return void response.writeHead(200).end();
    const timer = setTimeout(
      () => response.writeHead(200, { "content-type": "application/json" }).end(body),
      region.answersAfterMs(region.calls++),
    );
    response.on("close", () => {
      clearTimeout(timer);
      if (!response.writableEnded) region.left++;
    });
  };
  const server = createServer(listener).listen(0, "127.0.0.1");
  await once(server, "listening");
  cleanups.push(() => (server.closeAllConnections(), server.close()));
  const region: Server = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    answersAfterMs: () => 2,
    calls: 0,
    left: 0,
  };
  return region;
}

async function startProxiedServer(
  name: string,
): Promise<{ readonly server: Server; readonly proxy: TcpProxy }> {
  const [server, proxy] = [await startServer(name), await startTcpProxy()];
  proxy.target = server.url;
  cleanups.push(() => proxy.close());
  return { server, proxy };
}

function createTestPool(urls: readonly string[], options: Partial<RegionPoolOptions> = {}) {
  const events: RegionEvent[] = [];
  // The first one is where the requests come from.
  const regions = urls.map((baseUrl, index) => ({
    id: "ab"[index] ?? "",
    location: { latitudeDegrees: 50, longitudeDegrees: 8 - 85 * index },
    client: createOipHttpRegionClient({ baseUrl }),
  }));
  const pool = createRegionPool(regions, {
    clock: systemClock,
    onEvent: (event) => events.push(event),
    ...options,
  });
  const background: Promise<unknown>[] = [];
  const waitUntil = (work: Promise<unknown>) => void background.push(work);
  const ask = async (times: number, timeoutMs = 2_000) => {
    const origins: string[] = [];
    for (let call = 0; call < times; call++) {
      const outputs = pool.infer(
        createRegionRequest({
          inputs: [new Uint8Array(3)],
          timeoutMs,
          waitUntil,
          clientLocation: { latitudeDegrees: 50, longitudeDegrees: 8 },
        }),
      );
      origins.push(await outputs.then(respondingRegionOf, (error: { code: string }) => error.code));
    }
    return origins;
  };
  const won = (kind: string) =>
    events.filter(
      (event) => event.kind === "extra_call" && event.reason === kind && event.result === "won",
    ).length;
  return { pool, events, ask, won, background };
}

describe("regions over the network", () => {
  it("a late answer is given by another region, and the late one hears that nobody waits", async () => {
    const [a, b] = [await startServer("a"), await startServer("b")];
    let late = 1;
    a.answersAfterMs = b.answersAfterMs = () => (late-- > 0 ? 60_000 : 2);
    const { ask, won } = createTestPool([a.url, b.url]);
    expect([await ask(1, 5_000), won("hedge")]).toEqual([[expect.stringMatching(/a|b/)], 1]);
    await expect.poll(() => a.left + b.left).toBe(1);
  });

  it("a region that resets its connections costs no answer, is left, and is used again when it is back", async () => {
    const [a, b] = [await startProxiedServer("a"), await startProxiedServer("b")];
    b.server.answersAfterMs = () => 400;
    const { ask, pool, won } = createTestPool([a.proxy.url, b.proxy.url]);
    await ask(200);
    a.proxy.behavior = "resets";
    expect(new Set(await ask(10))).toEqual(new Set(["b"]));
    expect([won("retry") > 0, won("retry") <= 5, pool.listRegions(undefined)[0]?.health]).toEqual([
      true,
      true,
      expect.stringMatching(/doubtful|unhealthy/),
    ]);
    a.proxy.behavior = "forwards";
    b.proxy.behavior = "resets";
    await expect.poll(async () => (await ask(1))[0], { timeout: 10_000 }).toBe("a");
  });

  it("a region that hangs is broken off within its callers' time, and asked no more until its circuit lets one through", async () => {
    const { proxy } = await startProxiedServer("a");
    const { ask, events, pool, background } = createTestPool([proxy.url], {
      hedgeSameRegion: false,
    });
    await ask(40);
    proxy.behavior = "hangs";
    const lost = await Promise.all(Array.from({ length: 8 }, () => ask(1, 600)));
    expect(new Set(lost.flat())).toEqual(new Set(["region_unavailable"]));
    expect([
      pool.listRegions(undefined)[0]?.health,
      events.findLast(({ kind }) => kind === "circuit"),
    ]).toEqual(["unhealthy", { kind: "circuit", region: "a", state: "open" }]);
    const connections = proxy.connections;
    await ask(20);
    expect(proxy.connections - connections).toBeLessThanOrEqual(2); // one asks whether it is ready, another may be a probe
    proxy.behavior = "forwards";
    await expect.poll(async () => (await ask(1))[0], { timeout: 10_000 }).toBe("a");
    expect(pool.listRegions(undefined)[0]?.health).toBe("healthy");
    await Promise.all(background);
  });

  it("in a total outage, hardly more is sent than clients have asked", async () => {
    const [a, b] = [await startProxiedServer("a"), await startProxiedServer("b")];
    const { events, ask } = createTestPool([a.proxy.url, b.proxy.url]);
    await ask(50);
    a.proxy.behavior = b.proxy.behavior = "resets";
    await Promise.all(Array.from({ length: 100 }, () => ask(1)));
    const sent = events.filter(
      (event) => event.kind === "extra_call" && event.result === "sent",
    ).length;
    expect(sent).toBeGreaterThan(0);
    expect(sent).toBeLessThanOrEqual(1 + 0.03 * 150);
    expect(
      events.filter((event) => event.kind === "circuit" && event.state === "open").length,
    ).toBeGreaterThan(0);
  });
});
