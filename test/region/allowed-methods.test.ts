// Allowed methods of the region: 405 with `allow` and Triton's error on every route.
import { beforeAll, describe, expect, it } from "vitest";
import { createRegionFixture, publishMoodModel, type RegionFixture } from "./region-fixture.ts";

const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

describe("a route of the region", () => {
  let region: RegionFixture;
  const methodsByPath = new Map<string, string[]>();
  beforeAll(async () => {
    region = createRegionFixture();
    await publishMoodModel(region.store);
    for (const { method, path } of region.app.routes)
      if (method !== "ALL") methodsByPath.set(path, [...(methodsByPath.get(path) ?? []), method]);
  });

  it("answers 405 for every other method", async () => {
    expect([...methodsByPath.keys()]).toEqual(
      expect.arrayContaining(["/v2", "/v2/health/live", "/v2/models/:model/infer"]),
    );
    for (const [path, methods] of methodsByPath) {
      const urlPath = path.replace(":model", "mood").replace(":version", "1").replace(/:\w+/, "x");
      for (const method of METHODS) {
        if (methods.includes(method === "HEAD" ? "GET" : method)) continue;
        const response = await region.app.request(urlPath, { method });
        const call = `${method} ${urlPath}`;
        expect(response.status, call).toBe(405);
        expect(response.headers.get("allow"), call).toBe(methods.join(", "));
        if (method === "HEAD") continue;
        expect(await response.json(), call).toEqual({
          error: expect.stringMatching(/^Method Not Allowed/), // Triton's own text
        });
      }
    }
  });
});
