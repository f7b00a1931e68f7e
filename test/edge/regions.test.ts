// Regions in workerd: a pool of two regions over the network, and GET /v1/regions.
import { describe, expect, inject, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { regionListSchema } from "../../src/protocol/region-list.ts";
import { createRegionPool, type RegionEvent } from "../../src/region/client/region-pool.ts";
import type { PooledRegion } from "../../src/region/client/region-state.ts";
import { createOipHttpRegionClient } from "../../src/region/drivers/oip-http.ts";
import toy from "../fixtures/toy.onnx";
import { respondingRegionOf, createRegionRequest } from "../region/client/scripted-region.ts";
import { startEdgeUnderTest } from "../support/edge-app.ts";
import { fullDeployment } from "./full-engine.ts";

const { fast, slow, unreachable } = inject("regions");
const frankfurt = { latitudeDegrees: 50.11, longitudeDegrees: 8.68 };
const virginia = { latitudeDegrees: 38.95, longitudeDegrees: -77.45 };

function createTwoRegionPool(near: string, far: string) {
  const events: RegionEvent[] = [];
  const region = (id: string, baseUrl: string, location: typeof frankfurt): PooledRegion => ({
    id,
    location,
    client: createOipHttpRegionClient({ baseUrl }),
  });
  const pool = createRegionPool([region("near", near, frankfurt), region("far", far, virginia)], {
    clock: systemClock,
    onEvent: (event) => events.push(event),
  });
  const listExtraCalls = () => events.filter(({ kind }) => kind === "extra_call");
  const infer = () =>
    pool.infer(
      createRegionRequest({
        clientLocation: frankfurt,
        timeoutMs: 10_000,
        inputs: [new Uint8Array(1)],
      }),
    );
  return { pool, events, listExtraCalls, infer };
}

describe("a region pool in workerd", () => {
  it("hedges a slow call with the other region", async () => {
    const { listExtraCalls, infer } = createTwoRegionPool(slow, fast);
    expect(respondingRegionOf(await infer())).toBe("quick");
    expect(listExtraCalls()).toEqual([
      { kind: "extra_call", region: "far", reason: "hedge", result: "sent" },
      { kind: "extra_call", region: "far", reason: "hedge", result: "won" },
    ]);
  });

  it("retries in the other region if one is unreachable, and measures latencies", async () => {
    const { pool, events, listExtraCalls, infer } = createTwoRegionPool(unreachable, fast);
    expect(respondingRegionOf(await infer())).toBe("quick");
    expect(listExtraCalls()).toEqual([
      { kind: "extra_call", region: "far", reason: "retry", result: "sent" },
      { kind: "extra_call", region: "far", reason: "retry", result: "won" },
    ]);
    expect(events.filter(({ kind }) => kind === "call")).toEqual([
      { kind: "call", region: "near", result: "unreached", durationMs: expect.any(Number) },
      { kind: "call", region: "far", result: "ok", durationMs: expect.any(Number) },
    ]);
    expect(pool.listRegions(frankfurt)).toMatchObject([
      { id: "near", latencyMs: null },
      { id: "far", latencyMs: { p50: expect.any(Number) } },
    ]);
  });

  it("forwards a request and the winner's response body", async () => {
    const { pool } = createTwoRegionPool(slow, fast);
    const answer = await pool.forward({
      model: "mood",
      version: 1,
      requestId: "r",
      timeoutMs: 10_000,
      clientLocation: frankfurt,
      body: new TextEncoder().encode("{}"),
      headers: { "content-type": "application/json" },
    });
    expect(await answer.json()).toMatchObject({ outputs: [{ data: ["quick"] }] });
  });
});

describe("GET /v1/regions", () => {
  it("lists the regions nearest first, without private URLs", async () => {
    const edge = await startEdgeUnderTest(new Uint8Array(toy), fullDeployment, {
      regions: [
        {
          id: "us",
          location: virginia,
          client: createOipHttpRegionClient({ baseUrl: "http://secret.us" }),
        },
        {
          id: "eu",
          location: frankfurt,
          publicUrl: "https://eu.example.com",
          client: createOipHttpRegionClient({ baseUrl: "http://secret.eu" }),
        },
      ],
    });
    const list = async (latitude: string, longitude: string) =>
      await edge.app.request(
        new Request("http://edge/v1/regions", { cf: { latitude, longitude } } as RequestInit),
      );
    const fromBerlin = await list("52.52", "13.40");
    expect(fromBerlin.headers.get("cache-control")).toBe("no-store");
    const text = await fromBerlin.text();
    expect(regionListSchema.parse(JSON.parse(text))).toEqual({
      regions: [
        {
          id: "eu",
          place: frankfurt,
          url: "https://eu.example.com",
          health: "healthy",
          distanceKm: 423,
          latencyMs: null,
        },
        {
          id: "us",
          place: virginia,
          health: "healthy",
          distanceKm: expect.any(Number),
          latencyMs: null,
        },
      ],
    });
    expect(text).not.toContain("secret");
    const fromNewYork = regionListSchema.parse(await (await list("40.7", "-74.0")).json());
    expect(fromNewYork.regions.map(({ id }) => id)).toEqual(["us", "eu"]);
  });

  it("returns an empty list without regions", async () => {
    const edge = await startEdgeUnderTest(new Uint8Array(toy), fullDeployment, {
      withoutRegion: true,
    });
    expect(await (await edge.app.request("/v1/regions")).json()).toEqual({ regions: [] });
  });
});
