import { describe, expect, it } from "vitest";
import { ManualClock } from "../../src/core/clock.ts";
import { createConfiguredRegions } from "../../src/serving/configured-regions.ts";
import { parseEdgeConfig } from "../../src/http/config.ts";
import { startTelemetryUnderTest } from "../support/telemetry.ts";
import {
  advanceUntilSettled,
  createRegionRequest,
  createScriptedRegion,
} from "../region/client/scripted-region.ts";

const store = {
  EDGETIER_S3_ENDPOINT: "https://s3.example.com",
  EDGETIER_S3_BUCKET: "models",
  EDGETIER_S3_ACCESS_KEY_ID: "id",
  EDGETIER_S3_SECRET_ACCESS_KEY: "secret",
};

function createRegions(variables: object) {
  const clock = new ManualClock(1_000_000);
  const { metrics, readCountedLabels: counted } = startTelemetryUnderTest(clock);
  const servers = new Map<string, ReturnType<typeof createScriptedRegion>>();
  const clientOf = (baseUrl: string) => {
    const server = createScriptedRegion(clock, baseUrl, 20);
    servers.set(baseUrl, server);
    return server.client;
  };
  const pool = createConfiguredRegions(parseEdgeConfig({ ...store, ...variables }), clientOf, {
    clock,
    metrics,
  });
  const ask = async (times: number) => {
    for (let call = 0; call < times; call++)
      if (pool !== undefined) await advanceUntilSettled(clock, pool.infer(createRegionRequest()));
  };
  return { pool, servers, ask, counted };
}

const frankfurt = { latitudeDegrees: 50.11, longitudeDegrees: 8.68 };
const twoRegions = {
  EDGETIER_REGIONS: JSON.stringify([
    { id: "eu-1", url: "https://eu.example.com", place: frankfurt },
    { id: "us-1", url: "https://us.example.com" },
  ]),
};

describe("the regions of a deployment", () => {
  it("are those that it names, and none where it names none", () => {
    expect(createRegions({}).pool).toBeUndefined();
    expect(
      createRegions({ EDGETIER_REGION_URL: "http://region" })
        .pool?.listRegions(undefined)
        .map(({ id }) => id),
    ).toEqual(["default"]);
    const { pool, servers } = createRegions(twoRegions);
    expect([pool?.listRegions(undefined).map(({ id }) => id), [...servers.keys()]]).toEqual([
      ["eu-1", "us-1"],
      ["https://eu.example.com", "https://us.example.com"],
    ]);
    expect(pool?.listRegions(undefined).map(({ place }) => place)).toEqual([frankfurt, null]);
  });

  it("have their circuits, hedges and retries counted by metrics", async () => {
    const { servers, ask, counted } = createRegions(twoRegions);
    for (const server of servers.values())
      server.behavior = () => ({ afterMs: 1, failure: "unreached" });
    await ask(20);
    expect(counted("edgetier_region_circuit_changes_total")).toEqual(
      expect.arrayContaining([
        { region: "eu-1", to: "open" },
        { region: "us-1", to: "open" },
      ]),
    );
    expect(counted("edgetier_region_extra_calls_total")).toEqual(
      expect.arrayContaining([
        { region: expect.any(String), kind: "retry", result: "sent" },
        { region: expect.any(String), kind: "retry", result: "over_budget" },
      ]),
    );
    expect(new Set(counted("edgetier_region_calls_total").map(({ result }) => result))).toEqual(
      new Set(["unreached"]),
    );
  });

  it("are asked no more often than clients ask where extra calls are forbidden", async () => {
    const { servers, ask } = createRegions({
      ...twoRegions,
      EDGETIER_REGION_EXTRA_CALLS_SHARE: "0",
    });
    for (const server of servers.values())
      server.behavior = () => ({ afterMs: 1, failure: "busy" });
    await ask(5);
    expect([...servers.values()].reduce((sum, { calls }) => sum + calls.length, 0)).toBe(5);
  });
});
