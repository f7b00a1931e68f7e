// Who may ask a region, by its settings.
import { describe, expect, it } from "vitest";
import { createAuthentication } from "../../../functions/region/authentication.ts";
import { readRegionSettings } from "../../../functions/region/settings.ts";
import { generateRegionKey, formatRegionKey } from "../../../src/region/region-keys.ts";
import { createRegionFixture } from "../region-fixture.ts";

const s3 = {
  EDGETIER_S3_ENDPOINT: "http://127.0.0.1:1",
  EDGETIER_S3_BUCKET: "b",
  EDGETIER_S3_ACCESS_KEY_ID: "k",
  EDGETIER_S3_SECRET_ACCESS_KEY: "s",
};

async function createConfiguredAuthentication(variables: object) {
  const events: object[] = [];
  const gate = await createAuthentication(readRegionSettings({ ...s3, ...variables }), (event) =>
    events.push(event),
  );
  const { app } = createRegionFixture(gate === undefined ? {} : { authentication: gate });
  const statusOf = async (path: string) => (await app.request(path)).status;
  return {
    events,
    statuses: [
      await statusOf("/v2"),
      await statusOf("/v2/health/live"),
      await statusOf("/v2/health/ready"),
    ],
  };
}

describe("without keys", () => {
  it("everyone may, which it says where others can reach it", async () => {
    expect(await createConfiguredAuthentication({})).toEqual({
      events: [],
      statuses: [200, 200, 200],
    });
    for (const host of ["0.0.0.0", "::", "10.0.0.7"])
      expect(await createConfiguredAuthentication({ EDGETIER_REGION_HOST: host })).toMatchObject({
        events: [{ event: "open_to_everyone", host }],
        statuses: [200, 200, 200],
      });
    for (const host of ["127.0.0.1", "::1", "localhost"])
      expect((await createConfiguredAuthentication({ EDGETIER_REGION_HOST: host })).events).toEqual(
        [],
      );
  });
});

describe("with keys", () => {
  const keys = {
    EDGETIER_REGION_HOST: "0.0.0.0",
    EDGETIER_REGION_KEYS: [generateRegionKey("a"), generateRegionKey("b")]
      .map(formatRegionKey)
      .join(),
  };

  it("those who have one may, and health is for all; it names the keys, and no secret", async () => {
    expect(await createConfiguredAuthentication(keys)).toEqual({
      events: [{ event: "signatures_required", keys: ["a", "b"] }],
      statuses: [401, 200, 200],
    });
  });

  it("health is for all as far as it is said to be", async () => {
    expect(
      (
        await createConfiguredAuthentication({
          ...keys,
          EDGETIER_REGION_OPEN_PATHS: "/v2/health/live",
        })
      ).statuses,
    ).toEqual([401, 200, 401]);
    expect(
      (await createConfiguredAuthentication({ ...keys, EDGETIER_REGION_OPEN_PATHS: "none" }))
        .statuses,
    ).toEqual([401, 401, 401]);
  });
});
