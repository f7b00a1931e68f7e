import { beforeEach, describe, expect, it } from "vitest";
import { ManualClock } from "../../src/core/clock.ts";
import { coreErrors } from "../../src/core/common-errors.ts";
import type { RegionResponseEvent } from "../../src/region/server/app.ts";
// Infer route: admission before the body is read, cancelled and expired requests, and the report of every outcome.
import { regionServerErrors } from "../../src/region/server/errors.ts";
import type { Executor, ExecutionRequest } from "../../src/region/server/executor.ts";
import type { InferOutcome } from "../../src/region/server/infer.ts";
import { nativeErrors } from "../../src/runtime/native/errors.ts";
import { int8MatMulGraph, publishTensorModel } from "../support/tensor-model.ts";
import {
  createRegionFixture,
  readFixture,
  postRequest,
  publishMoodModel,
  createTextBody,
  type RegionFixture,
  type RegionFixtureOptions,
} from "./region-fixture.ts";

const infer = "/v2/models/mood/infer";
const clock = new ManualClock(1_000);
let outcomes: InferOutcome[];
let responses: RegionResponseEvent[];

async function startRegion(options: RegionFixtureOptions = {}): Promise<RegionFixture> {
  const region = createRegionFixture({
    clock,
    onOutcome: (outcome) => outcomes.push(outcome),
    onResponse: (response) => responses.push(response),
    ...options,
  });
  await publishMoodModel(region.store);
  await region.store.writeAliases("mood", { stable: 1 }, undefined);
  await region.repository.load("mood");
  return region;
}

beforeEach(() => {
  outcomes = [];
  responses = [];
});

/** Request body that ends when the test calls `end`. */
function createManualBody(text: string) {
  const { promise: end, resolve } = Promise.withResolvers<void>();
  let isRead = false;
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        isRead = true;
        await end;
        controller.enqueue(new TextEncoder().encode(text));
        controller.close();
      },
    },
    { highWaterMark: 0 },
  );
  const init: RequestInit & { duplex: "half" } = { method: "POST", body, duplex: "half" };
  return { init, end: resolve, isRead: () => isRead };
}

const flushEventLoop = () => new Promise((resolve) => setImmediate(resolve));
const createStubExecutor = (execute: Executor["execute"]): Executor => ({
  queueStates: () => [],
  execute,
});

describe("the admission of an infer request", () => {
  it("acquires a permit before the body is read, and releases it after every outcome", async () => {
    let permitsInUse = 0;
    const permits = {
      utilization: 0,
      acquire() {
        if (permitsInUse === 2) throw regionServerErrors.queueFull(2);
        permitsInUse++;
        return () => void permitsInUse--;
      },
    };
    const { app, lifecycle, errorCodes } = await startRegion({ concurrencyLimiter: permits });
    const held = [createManualBody(createTextBody(["good"])), createManualBody("{")];
    const first = held.map(({ init }) => app.request(infer, init));
    await flushEventLoop();
    const rejected = createManualBody(createTextBody(["bad"]));
    const response = await app.request(infer, rejected.init);
    expect({
      status: response.status,
      code: errorCodes.at(-1),
      retryAfter: response.headers.get("retry-after"),
    }).toEqual({ status: 503, code: "queue_full", retryAfter: "1" });
    expect({ isRead: rejected.isRead(), inFlight: lifecycle.inFlight }).toEqual({
      isRead: false,
      inFlight: 2,
    });
    for (const { end } of held) end();
    expect((await Promise.all(first)).map(({ status }) => status)).toEqual([200, 400]);
    expect((await app.request("/v2/models/other/infer", postRequest("{}"))).status).toBe(400);
    expect({ permitsInUse, inFlight: lifecycle.inFlight }).toEqual({
      permitsInUse: 0,
      inFlight: 0,
    });
  });
});

describe("an infer request", () => {
  it("never reaches the model if its deadline passes while its body is read", async () => {
    const { app, errorCodes } = await startRegion();
    const body = createManualBody(createTextBody(["good"]));
    const pending = app.request(infer, { ...body.init, headers: { "x-deadline-ms": "50" } });
    await flushEventLoop();
    clock.advance(50);
    body.end();
    const response = await pending;
    expect({ status: response.status, code: errorCodes.at(-1) }).toEqual({
      status: 503,
      code: "request_expired",
    });
    expect(outcomes).toEqual([]);
  });

  it("never reaches the model if its client disconnects while its body is read", async () => {
    const { app } = await startRegion();
    const client = new AbortController();
    const body = createManualBody(createTextBody(["good"]));
    const pending = app.request(
      new Request(`http://region${infer}`, { ...body.init, signal: client.signal }),
    );
    await flushEventLoop();
    client.abort();
    body.end();
    expect((await pending).status).toBeGreaterThanOrEqual(400);
    expect(outcomes).toEqual([]);
  });

  it.each(["0", "-5", "soon", "600001", "1.5"])(
    "is rejected with a deadline of %s",
    async (deadline) => {
      const { app, errorCodes } = await startRegion();
      const response = await app.request(
        infer,
        postRequest(createTextBody(["good"]), { "x-deadline-ms": deadline }),
      );
      expect({ status: response.status, code: errorCodes.at(-1) }).toEqual({
        status: 400,
        code: "invalid_deadline",
      });
    },
  );
});

describe("an infer request in the executor", () => {
  it("has its tier, priority, the earlier of its time limits, and the batching of the model", async () => {
    const requests: ExecutionRequest[] = [];
    const executor = createStubExecutor(
      (request) => (requests.push(request), request.session.run(request.inputs)),
    );
    const region = createRegionFixture({ clock, executor });
    const serving = { batching: { mode: "fixed", maxBatchRows: 4 } } as const;
    await publishTensorModel(
      region.store,
      "matmul",
      int8MatMulGraph(await readFixture("int8-matmul.onnx")),
      { places: ["region"], edit: (tier) => ({ ...tier, serving }) },
    );
    const body = (timeout: number) =>
      JSON.stringify({
        parameters: { priority: 2, timeout },
        inputs: [{ name: "x", shape: [1, 3], datatype: "UINT8", data: [1, 2, 3] }],
      });
    const inferWithTimeout = (timeout: number) =>
      region.app.request(
        "/v2/models/matmul/infer",
        postRequest(body(timeout), { "x-deadline-ms": "70" }),
      );
    expect((await inferWithTimeout(40_000)).status).toBe(200);
    expect((await inferWithTimeout(90_000)).status).toBe(200);
    const common = {
      tier: { model: "matmul", version: 1, tier: "region" },
      priority: 2,
      maxLatencyMs: 1_000,
      batching: expect.objectContaining(serving.batching),
    };
    expect(requests).toEqual(
      [40, 70].map((ms) => expect.objectContaining({ ...common, expiresAtMs: clock.now() + ms })),
    );
  });
});

describe("the report of an infer request", () => {
  it.each([
    ["is answered", undefined, undefined],
    ["finds the queue full", regionServerErrors.queueFull(1), "REJECTED"],
    ["waited too long", regionServerErrors.requestExpired(), "REJECTED"],
    ["has lost its client", coreErrors.requestCancelled(), "CANCELED"],
    ["fails in the runtime", coreErrors.sessionFailed("broken"), "BACKEND"],
    ["loses its session worker", nativeErrors.sessionLost("by SIGKILL"), "BACKEND"],
    ["reaches a worker that is being replaced", nativeErrors.sessionBeingReplaced(), "BACKEND"],
    ["causes an internal error", new TypeError("broken"), "OTHER"],
  ])("is sent once, with its outcome, if the request %s", async (_title, error, failure) => {
    const executor = createStubExecutor(async (work) => {
      clock.advance(7);
      if (error !== undefined) throw error;
      return await work.session.run(work.inputs);
    });
    const { app } = await startRegion({ executor });
    const response = await app.request(infer, postRequest(createTextBody(["good"])));
    expect(outcomes).toEqual([
      {
        tier: { model: "mood", version: 1, tier: "heavy" },
        durationMs: 7,
        preprocessMs: 0,
        isCoalesced: false,
        failure,
      },
    ]);
    expect(responses).toEqual([
      {
        action: "infer",
        status: response.status,
        durationMs: 7,
        requestId: expect.any(String),
        traceId: undefined,
      },
    ]);
  });
});

describe("the report of other requests", () => {
  it("contains no model failure if the request is invalid", async () => {
    const { app } = await startRegion();
    for (const body of [
      createTextBody([" "]),
      createTextBody(["good"], { outputs: [{ name: "z" }] }),
      "{",
    ])
      await app.request(infer, postRequest(body));
    expect(outcomes).toEqual([]);
    expect(responses).toMatchObject(
      Array.from({ length: 3 }, () => ({ action: "infer", status: 400 })),
    );
  });

  it("names the action, never the path", async () => {
    const { app } = await startRegion();
    for (const path of [
      "/v2",
      "/v2/models/mood",
      "/v2/models/mood/config",
      "/v2/models/stats",
      "/v2/nothing",
      "/anything/else",
    ])
      await app.request(path);
    await app.request("/v2/health/live", { method: "DELETE" });
    expect(responses).toMatchObject([
      { action: "metadata", status: 200 },
      { action: "model_metadata", status: 200 },
      { action: "config", status: 200 },
      { action: "stats", status: 200 },
      { action: "other", status: 404 },
      { action: "other", status: 404 },
      { action: "live", status: 405 },
    ]);
  });
});

describe("a raw binary request", () => {
  it("is read as the single input of the model, or as the task input", async () => {
    const region = await startRegion();
    await publishTensorModel(
      region.store,
      "matmul",
      int8MatMulGraph(await readFixture("int8-matmul.onnx")),
      { places: ["region"] },
    );
    const raw = { "inference-header-content-length": "0" };
    const rawResponses = await Promise.all([
      region.app.request("/v2/models/matmul/infer", postRequest(Uint8Array.of(1, 2, 3), raw)),
      region.app.request(infer, postRequest("good", raw)),
    ]);
    const outputs = rawResponses.map(async (response) => {
      const length = Number(response.headers.get("inference-header-content-length"));
      const bytes = new Uint8Array(await response.arrayBuffer());
      const [output] = JSON.parse(new TextDecoder().decode(bytes.subarray(0, length))).outputs;
      const { name, datatype, shape } = output;
      return { name, datatype, shape, bytes: bytes.byteLength - length };
    });
    expect(await Promise.all(outputs)).toEqual([
      { name: "y", datatype: "INT32", shape: [1, 2], bytes: 8 },
      { name: "logits", datatype: "FP32", shape: [1, 2], bytes: 8 },
    ]);
  });
});
