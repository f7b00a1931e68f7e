// Access to a region, by its settings for keys and open paths.
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
  const authentication = await createAuthentication(
    readRegionSettings({ ...s3, ...variables }),
    (event) => events.push(event),
  );
  const { app } = createRegionFixture(authentication === undefined ? {} : { authentication });
  const statusOf = async (path: string) => (await app.request(path)).status;
  return {
    events,
    statuses: {
      metadata: await statusOf("/v2"),
      live: await statusOf("/v2/health/live"),
      ready: await statusOf("/v2/health/ready"),
    },
  };
}

const everythingOpen = { metadata: 200, live: 200, ready: 200 };

describe("a region without keys", () => {
  it("admits every request, and logs a warning on a host that others can reach", async () => {
    expect(await createConfiguredAuthentication({})).toEqual({
      events: [],
      statuses: everythingOpen,
    });
    for (const host of ["0.0.0.0", "::", "10.0.0.7"])
      expect(await createConfiguredAuthentication({ EDGETIER_REGION_HOST: host })).toMatchObject({
        events: [{ event: "open_to_everyone", host }],
        statuses: everythingOpen,
      });
    for (const host of ["127.0.0.1", "::1", "localhost"])
      expect((await createConfiguredAuthentication({ EDGETIER_REGION_HOST: host })).events).toEqual(
        [],
      );
  });
});

describe("a region with keys", () => {
  const keys = {
    EDGETIER_REGION_HOST: "0.0.0.0",
    EDGETIER_REGION_KEYS: [generateRegionKey("a"), generateRegionKey("b")]
      .map(formatRegionKey)
      .join(),
  };

  it("requires signatures except for health, and logs the ids of its keys but no secret", async () => {
    expect(await createConfiguredAuthentication(keys)).toEqual({
      events: [{ event: "signatures_required", keys: ["a", "b"] }],
      statuses: { metadata: 401, live: 200, ready: 200 },
    });
  });

  it("opens only the health paths that its settings list", async () => {
    expect(
      (
        await createConfiguredAuthentication({
          ...keys,
          EDGETIER_REGION_OPEN_PATHS: "/v2/health/live",
        })
      ).statuses,
    ).toEqual({ metadata: 401, live: 200, ready: 401 });
    expect(
      (await createConfiguredAuthentication({ ...keys, EDGETIER_REGION_OPEN_PATHS: "none" }))
        .statuses,
    ).toEqual({ metadata: 401, live: 401, ready: 401 });
  });
});
