import { once } from "node:events";
// The region pool over real servers on the network: slow, dead and hanging ones, and their recovery.
import { createServer, type RequestListener } from "node:http";
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
  latencyMs: (call: number) => number;
  calls: number;
  /** Number of calls whose client disconnected before the response. */
  disconnects: number;
}

/** Starts an Open Inference server whose outputs contain its own name. */
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
      region.latencyMs(region.calls++),
    );
    response.on("close", () => {
      clearTimeout(timer);
      if (!response.writableEnded) region.disconnects++;
    });
  };
  const server = createServer(listener).listen(0, "127.0.0.1");
  await once(server, "listening");
  cleanups.push(() => (server.closeAllConnections(), server.close()));
  const region: Server = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    latencyMs: () => 2,
    calls: 0,
    disconnects: 0,
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
  // The requests come from the location of the first region.
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
  const inferTimes = async (times: number, timeoutMs = 2_000) => {
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
  const countWon = (kind: string) =>
    events.filter(
      (event) => event.kind === "extra_call" && event.reason === kind && event.result === "won",
    ).length;
  return { pool, events, inferTimes, countWon, background };
}

describe("a pool over slow and broken regions", () => {
  it("returns another region's response instead of a late one, and aborts the late call", async () => {
    const [a, b] = [await startServer("a"), await startServer("b")];
    let hangingCalls = 1;
    a.latencyMs = b.latencyMs = () => (hangingCalls-- > 0 ? 60_000 : 2);
    const { inferTimes, countWon } = createTestPool([a.url, b.url]);
    expect(await inferTimes(1, 5_000)).toEqual([expect.stringMatching(/^[ab]$/)]);
    expect(countWon("hedge")).toBe(1);
    await expect.poll(() => a.disconnects + b.disconnects).toBe(1);
  });

  it("loses no response to a region that resets connections, avoids it, and calls it again after its recovery", async () => {
    const [a, b] = [await startProxiedServer("a"), await startProxiedServer("b")];
    b.server.latencyMs = () => 400;
    const { inferTimes, pool, countWon } = createTestPool([a.proxy.url, b.proxy.url]);
    await inferTimes(200);
    a.proxy.behavior = "resets";
    expect(new Set(await inferTimes(10))).toEqual(new Set(["b"]));
    expect(countWon("retry")).toBeGreaterThan(0);
    expect(countWon("retry")).toBeLessThanOrEqual(5);
    expect(pool.listRegions(undefined)[0]?.health).toMatch(/doubtful|unhealthy/);
    a.proxy.behavior = "forwards";
    b.proxy.behavior = "resets";
    await expect.poll(async () => (await inferTimes(1))[0], { timeout: 10_000 }).toBe("a");
  });
});

describe("a pool whose regions all fail", () => {
  it("aborts calls to a hanging region at their deadline, and avoids the region until its circuit allows a probe", async () => {
    const { proxy } = await startProxiedServer("a");
    const { inferTimes, events, pool, background } = createTestPool([proxy.url], {
      hedgeSameRegion: false,
    });
    await inferTimes(40);
    proxy.behavior = "hangs";
    const timedOut = await Promise.all(Array.from({ length: 8 }, () => inferTimes(1, 600)));
    expect(new Set(timedOut.flat())).toEqual(new Set(["region_unavailable"]));
    expect(pool.listRegions(undefined)[0]?.health).toBe("unhealthy");
    expect(events.findLast(({ kind }) => kind === "circuit")).toEqual({
      kind: "circuit",
      region: "a",
      state: "open",
    });
    const connections = proxy.connections;
    await inferTimes(20);
    // One connection is a readiness check, and another may be a probe.
    expect(proxy.connections - connections).toBeLessThanOrEqual(2);
    proxy.behavior = "forwards";
    await expect.poll(async () => (await inferTimes(1))[0], { timeout: 10_000 }).toBe("a");
    expect(pool.listRegions(undefined)[0]?.health).toBe("healthy");
    await Promise.all(background);
  });

  it("makes few extra calls in a total outage", async () => {
    const [a, b] = [await startProxiedServer("a"), await startProxiedServer("b")];
    const { events, inferTimes } = createTestPool([a.proxy.url, b.proxy.url]);
    await inferTimes(50);
    a.proxy.behavior = b.proxy.behavior = "resets";
    await Promise.all(Array.from({ length: 100 }, () => inferTimes(1)));
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
