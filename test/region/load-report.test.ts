// Load reports: response headers with the current utilization of the region.
import { describe, expect, it } from "vitest";
import { ManualClock } from "../../src/core/clock.ts";
import { parseLoadReport } from "../../src/protocol/load-report.ts";
import { createInProcessRegionClient } from "../../src/region/drivers/in-process.ts";
import { createConcurrencyLimiter } from "../../src/region/server/batching/concurrency-limiter.ts";
import {
  createRegionFixture,
  postRequest,
  publishMoodModel,
  createTextBody,
} from "./region-fixture.ts";

async function startRegion() {
  const clock = new ManualClock(1_000_000);
  const region = createRegionFixture({ clock, concurrencyLimiter: createConcurrencyLimiter(4) });
  await publishMoodModel(region.store);
  const inferWithReport = async (format: string, body = createTextBody(["good"])) => {
    const { headers, ...rest } = postRequest(body);
    return await region.app.request("/v2/models/mood/versions/1/infer", {
      ...rest,
      headers: { ...headers, ...(format === "" ? {} : { "endpoint-load-metrics-format": format }) },
    });
  };
  return { ...region, clock, inferWithReport };
}

describe("a load report", () => {
  it("is sent to clients that request it, in the requested format", async () => {
    const { inferWithReport } = await startRegion();
    const headers = [];
    for (const format of ["text", "json", "", "yaml"])
      headers.push((await inferWithReport(format)).headers.get("endpoint-load-metrics"));
    expect(headers).toEqual([
      "TEXT application_utilization=0, named_metrics.requests_in_flight=0, named_metrics.oldest_queued_ms=0",
      'JSON {"application_utilization":0,"named_metrics":{"requests_in_flight":0,"oldest_queued_ms":0}}',
      null,
      null,
    ]);
  });

  it("contains the current load, in rejections too", async () => {
    const { inferWithReport, lifecycle, app, clock } = await startRegion();
    await inferWithReport(""); // Opens the session.
    const ends: (() => void)[] = [];
    const hold = () => {
      const body = new ReadableStream({
        start: (controller) => void ends.push(() => controller.close()),
      });
      const init: RequestInit & { duplex: "half" } = { method: "POST", body, duplex: "half" };
      return app.request("/v2/models/mood/versions/1/infer", init);
    };
    clock.advance(10);
    const held = [hold(), hold(), hold()];
    await expect.poll(() => lifecycle.inFlight).toBe(3);
    const response = await inferWithReport("text");
    expect(response.status).toBe(200);
    expect(parseLoadReport(response.headers.get("endpoint-load-metrics"))).toMatchObject({
      utilization: 0.75,
      requestsInFlight: 3,
    });
    held.push(hold());
    await expect.poll(() => lifecycle.inFlight).toBe(4);
    clock.advance(10); // A report is cached for this long.
    const rejected = await inferWithReport("text");
    expect(rejected.status).toBe(503);
    expect(parseLoadReport(rejected.headers.get("endpoint-load-metrics"))).toMatchObject({
      utilization: 1,
      requestsInFlight: 4,
    });
    for (const end of ends) end();
    await Promise.all(held);
    expect(
      (
        await app.request("/v2/health/ready", {
          headers: { "endpoint-load-metrics-format": "text" },
        })
      ).headers.get("endpoint-load-metrics"),
    ).toBeNull();
  });
});

describe("a load report for a region client", () => {
  it("reaches a client with a listener, and is not requested by others", async () => {
    const { app } = await startRegion();
    const formats: (string | null)[] = [];
    const client = createInProcessRegionClient(
      (request) => (
        formats.push(request.headers.get("endpoint-load-metrics-format")),
        app.fetch(request)
      ),
    );
    const call = {
      model: "mood",
      version: 1,
      tier: "heavy",
      inputs: [new TextEncoder().encode("good")],
      requestId: "r",
      timeoutMs: 5_000,
    };
    const loads: unknown[] = [];
    await client.infer(call);
    await client.infer({ ...call, onLoadReport: (load) => loads.push(load) });
    expect({ formats, loads }).toEqual({
      formats: [null, "text"],
      loads: [{ utilization: 0, requestsInFlight: 0, oldestQueuedMs: 0 }],
    });
  });
});
