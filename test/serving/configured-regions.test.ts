// Configured regions: the pool that a deployment's variables define.
import { describe, expect, it } from "vitest";
import { ManualClock } from "../../src/core/clock.ts";
import { parseEdgeConfig } from "../../src/http/config.ts";
import { createConfiguredRegions } from "../../src/serving/configured-regions.ts";
import {
  advanceUntilSettled,
  createRegionRequest,
  createScriptedRegion,
} from "../region/client/scripted-region.ts";
import { startTelemetryUnderTest } from "../support/telemetry.ts";

const store = {
  EDGETIER_S3_ENDPOINT: "https://s3.example.com",
  EDGETIER_S3_BUCKET: "models",
  EDGETIER_S3_ACCESS_KEY_ID: "id",
  EDGETIER_S3_SECRET_ACCESS_KEY: "secret",
};

function createRegions(variables: object) {
  const clock = new ManualClock(1_000_000);
  const { metrics, readCountedLabels } = startTelemetryUnderTest(clock);
  const servers = new Map<string, ReturnType<typeof createScriptedRegion>>();
  const createClient = (baseUrl: string) => {
    const server = createScriptedRegion(clock, baseUrl, 20);
    servers.set(baseUrl, server);
    return server.client;
  };
  const pool = createConfiguredRegions(parseEdgeConfig({ ...store, ...variables }), createClient, {
    clock,
    metrics,
  });
  const infer = async (times: number) => {
    for (let call = 0; call < times; call++)
      if (pool !== undefined) await advanceUntilSettled(clock, pool.infer(createRegionRequest()));
  };
  return { pool, servers, infer, readCountedLabels };
}

const frankfurt = { latitudeDegrees: 50.11, longitudeDegrees: 8.68 };
const twoRegions = {
  EDGETIER_REGIONS: JSON.stringify([
    { id: "eu-1", url: "https://eu.example.com", place: frankfurt },
    { id: "us-1", url: "https://us.example.com" },
  ]),
};

describe("createConfiguredRegions", () => {
  it("creates the configured regions, or no pool", () => {
    expect(createRegions({}).pool).toBeUndefined();
    expect(
      createRegions({ EDGETIER_REGION_URL: "http://region" })
        .pool?.listRegions(undefined)
        .map(({ id }) => id),
    ).toEqual(["default"]);
    const { pool, servers } = createRegions(twoRegions);
    expect(pool?.listRegions(undefined)).toMatchObject([
      { id: "eu-1", place: frankfurt },
      { id: "us-1", place: null },
    ]);
    expect([...servers.keys()]).toEqual(["https://eu.example.com", "https://us.example.com"]);
  });

  it("counts circuit changes and retries", async () => {
    const { servers, infer, readCountedLabels } = createRegions(twoRegions);
    for (const server of servers.values())
      server.behavior = () => ({ afterMs: 1, failure: "unreached" });
    await infer(20);
    expect(readCountedLabels("edgetier_region_circuit_changes_total")).toEqual(
      expect.arrayContaining([
        { region: "eu-1", to: "open" },
        { region: "us-1", to: "open" },
      ]),
    );
    expect(readCountedLabels("edgetier_region_extra_calls_total")).toEqual(
      expect.arrayContaining([
        { region: expect.any(String), kind: "retry", result: "sent" },
        { region: expect.any(String), kind: "retry", result: "over_budget" },
      ]),
    );
    expect(
      new Set(readCountedLabels("edgetier_region_calls_total").map(({ result }) => result)),
    ).toEqual(new Set(["unreached"]));
  });

  it("sends no extra calls if they are forbidden", async () => {
    const { servers, infer } = createRegions({
      ...twoRegions,
      EDGETIER_REGION_EXTRA_CALLS_SHARE: "0",
    });
    for (const server of servers.values())
      server.behavior = () => ({ afterMs: 1, failure: "busy" });
    await infer(5);
    expect([...servers.values()].reduce((sum, { calls }) => sum + calls.length, 0)).toBe(5);
  });
});
