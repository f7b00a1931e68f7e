// Deprecated names of the client: they still work, warn once, and lose against the current names.
import { afterEach, beforeEach, describe, expect, expectTypeOf, it, vi } from "vitest";
import {
  type AnswerStore,
  type CachedResponse,
  type ClientErrorCode,
  type ClientFault,
  connect,
  createAnswerStore,
  createClient,
  createRegions,
  createResponseCache,
  infer,
  type KeptAnswer,
  type PredictionFor,
  type PredictionOf,
  type Regions,
  type ResponseCache,
} from "../../src/client/index.ts";
import {
  type DeviceModel,
  type DeviceModelOptions,
  type Edge,
  type EdgePredictor,
  loadDeviceModel,
  type OnDevice,
  type OnDeviceOptions,
  openOnDevice,
  type OrtTensor,
  type ReadExportFile,
  type ReadFile,
} from "../../src/client/on-device.ts";

const URL = "https://edge.test";
const PREDICTION = {
  id: "1",
  model: "toy",
  version: 1,
  outputs: [],
  usage: { tiers: [] },
};

let warn: ReturnType<typeof vi.spyOn>;
beforeEach(() => {
  warn = vi.spyOn(console, "warn").mockImplementation(() => {});
});
afterEach(() => warn.mockRestore());

/** Responds to each request with the next status, and with 200 after the last. */
function fetchFixture(statuses: readonly number[] = []) {
  const remaining = [...statuses];
  const urls: string[] = [];
  return {
    urls,
    fetch: (async (url: string) => {
      urls.push(url);
      const status = remaining.shift() ?? 200;
      return status === 200
        ? Response.json(PREDICTION, { headers: { etag: '"1"' } })
        : new Response("{}", { status });
    }) as unknown as typeof fetch,
  };
}

describe("deprecated options of the connection", () => {
  it("are accepted", () => {
    expect(connect({ url: URL, wayMs: 7, retries: 4 })).toMatchObject({
      roundTripMs: 7,
      maxRetries: 4,
      wayMs: 7,
      retries: 4,
    });
  });

  it("lose against the current names", () => {
    expect(
      connect({ url: URL, wayMs: 7, roundTripMs: 8, retries: 4, maxRetries: 0 }),
    ).toMatchObject({ roundTripMs: 8, maxRetries: 0 });
  });

  it("limit the retries of a call", async () => {
    const { fetch, urls } = fetchFixture([503, 503, 503]);
    const client = createClient({ url: URL, fetch, random: () => 0 });
    await expect(client.models({ retries: 0 })).rejects.toMatchObject({ status: 503 });
    expect(urls).toHaveLength(1);
  });

  it("warn once for each name", async () => {
    vi.resetModules();
    const fresh = await import("../../src/client/index.ts");
    for (let call = 0; call < 2; call++) fresh.connect({ url: URL, wayMs: 7, retries: 4 });
    expect(warn).toHaveBeenCalledTimes(2);
    fresh.connect({ url: URL, roundTripMs: 7, maxRetries: 4 });
    expect(warn).toHaveBeenCalledTimes(2);
  });
});

describe("deprecated options of predictions", () => {
  it("cache responses, and return them after an error", async () => {
    const { fetch, urls } = fetchFixture([200, 502]);
    const client = createClient({
      url: URL,
      fetch,
      answers: createAnswerStore(),
      offline: true,
    });
    expect((await client.predict("toy", "yes")).source).toBe("miss");
    expect((await client.predict("toy", "yes")).source).toBe("offline");
    expect(urls).toHaveLength(2);
  });

  it("override the client's current options for one call", async () => {
    const { fetch } = fetchFixture([200, 502]);
    const ownCache = createResponseCache();
    const client = createClient({
      url: URL,
      fetch,
      responseCache: createResponseCache(),
      staleIfError: true,
    });
    await client.predict("toy", "yes", { answers: ownCache });
    expect(await ownCache.get(`${URL}/v1/models/toy/predict?input=yes`)).toMatchObject({
      etag: '"1"',
    });
    await expect(
      client.predict("toy", "yes", { answers: ownCache, offline: false }),
    ).rejects.toMatchObject({ status: 502 });
  });

  it("disable the client's cache for one call", async () => {
    const { fetch, urls } = fetchFixture();
    const client = createClient({ url: URL, fetch, responseCache: createResponseCache() });
    await client.predict("toy", "private", { answers: undefined });
    expect(urls).toEqual([`${URL}/v1/models/toy/predict`]);
  });
});

describe("deprecated region names", () => {
  const inputs = { x: { datatype: "UINT8", shape: [1], data: Uint8Array.of(1) } } as const;

  it("enable direct calls of regions by the option `direct`", async () => {
    const { fetch, urls } = fetchFixture([500, 500]);
    const client = createClient({ url: URL, fetch, direct: true });
    await expect(client.infer("toy", inputs)).rejects.toMatchObject({ status: 500 });
    expect(urls[0]).toBe(`${URL}/v1/regions`);
  });

  it("report a failed region to a selector with `leaveAlone`", async () => {
    const { fetch } = fetchFixture([500, 500]);
    const failedIds: string[] = [];
    const regions: Regions = {
      nearest: async () => ({ id: "near", url: "https://near.test" }),
      leaveAlone: (id) => failedIds.push(id),
    };
    await expect(
      infer(connect({ url: URL, fetch }), "toy", inputs, { regions }),
    ).rejects.toMatchObject({ status: 500 });
    expect(failedIds).toEqual(["near"]);
  });

  it("create a selector with both names of its method", () => {
    const regions = createRegions();
    expect(regions.leaveAlone).toBe(regions.markFailed);
  });
});

it("exports the deprecated functions and types", () => {
  expect(createAnswerStore).toBe(createResponseCache);
  expect(openOnDevice).toBe(loadDeviceModel);
  expectTypeOf<AnswerStore>().toEqualTypeOf<ResponseCache>();
  expectTypeOf<KeptAnswer>().toEqualTypeOf<CachedResponse>();
  expectTypeOf<ClientFault>().toEqualTypeOf<ClientErrorCode>();
  expectTypeOf<PredictionOf<string>>().toEqualTypeOf<PredictionFor<string>>();
  expectTypeOf<Edge>().toEqualTypeOf<EdgePredictor>();
  expectTypeOf<OnDevice>().toEqualTypeOf<DeviceModel>();
  expectTypeOf<OnDeviceOptions<OrtTensor>>().toEqualTypeOf<DeviceModelOptions<OrtTensor>>();
  expectTypeOf<ReadFile>().toEqualTypeOf<ReadExportFile>();
});
