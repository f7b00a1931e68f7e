// The infer route: room before work, work that nobody wants any more, and who is told how it ended.
import { regionServerErrors } from "../../src/region/server/errors.ts";
import { coreErrors } from "../../src/core/common-errors.ts";
import { nativeErrors } from "../../src/runtime/native/errors.ts";
import { beforeEach, describe, expect, it } from "vitest";
import { ManualClock } from "../../src/core/clock.ts";
import type { RegionResponseEvent } from "../../src/region/server/app.ts";
import type { Executor, ExecutionRequest } from "../../src/region/server/executor.ts";
import type { InferOutcome } from "../../src/region/server/infer.ts";
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
let answers: RegionResponseEvent[];

async function startRegion(options: RegionFixtureOptions = {}): Promise<RegionFixture> {
  const region = createRegionFixture({
    clock,
    onOutcome: (outcome) => outcomes.push(outcome),
    onResponse: (answer) => answers.push(answer),
    ...options,
  });
  await publishMoodModel(region.store);
  await region.store.writeAliases("mood", { stable: 1 }, undefined);
  await region.repository.load("mood");
  return region;
}

beforeEach(() => {
  outcomes = [];
  answers = [];
});

/** A body whose end comes when the test says so. */
function createManualBody(text: string) {
  const { promise: end, resolve } = Promise.withResolvers<void>();
  let isAsked = false;
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        isAsked = true;
        await end;
        controller.enqueue(new TextEncoder().encode(text));
        controller.close();
      },
    },
    { highWaterMark: 0 },
  );
  const init: RequestInit & { duplex: "half" } = { method: "POST", body, duplex: "half" };
  return { init, end: resolve, isAsked: () => isAsked };
}

const flushEventLoop = () => new Promise((resolve) => setImmediate(resolve));
const createStubExecutor = (execute: Executor["execute"]): Executor => ({
  queueStates: () => [],
  execute,
});

describe("a request", () => {
  it("takes a permit before its body is read, and gives it back however it ends", async () => {
    let taken = 0;
    const permits = {
      utilization: 0,
      acquire() {
        if (taken === 2) throw regionServerErrors.queueFull(2);
        taken++;
        return () => void taken--;
      },
    };
    const { app, lifecycle } = await startRegion({ concurrencyLimiter: permits });
    const held = [createManualBody(createTextBody(["good"])), createManualBody("{")];
    const first = held.map(({ init }) => app.request(infer, init));
    await flushEventLoop();
    const refused = createManualBody(createTextBody(["bad"]));
    const response = await app.request(infer, refused.init);
    expect([response.status, response.headers.get("retry-after"), await response.json()]).toEqual([
      503,
      "1",
      { error: expect.stringMatching(/^Exceeds maximum queue size/) },
    ]);
    expect([refused.isAsked(), lifecycle.inFlight]).toEqual([false, 2]);
    for (const { end } of held) end();
    expect((await Promise.all(first)).map(({ status }) => status)).toEqual([200, 400]);
    expect((await app.request("/v2/models/other/infer", postRequest("{}"))).status).toBe(400);
    expect([taken, lifecycle.inFlight]).toEqual([0, 0]);
  });

  it("whose deadline passes while it is read never reaches the model", async () => {
    const { app } = await startRegion();
    const body = createManualBody(createTextBody(["good"]));
    const pending = app.request(infer, { ...body.init, headers: { "x-deadline-ms": "50" } });
    await flushEventLoop();
    clock.advance(50);
    body.end();
    const response = await pending;
    expect([response.status, await response.json()]).toEqual([
      503,
      { error: expect.stringMatching(/^Request timeout expired/) },
    ]);
    expect(outcomes).toEqual([]);
  });

  it("whose client leaves while it is read never reaches the model", async () => {
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
    "is refused with a deadline of %s",
    async (deadline) => {
      const { app } = await startRegion();
      const response = await app.request(
        infer,
        postRequest(createTextBody(["good"]), { "x-deadline-ms": deadline }),
      );
      expect([response.status, await response.json()]).toEqual([
        400,
        { error: expect.stringContaining("deadline") },
      ]);
    },
  );

  it("goes to the executor with what is known of it: whose it is, priority, the sooner of its limits, the model's batching", async () => {
    const works: ExecutionRequest[] = [];
    const executor = createStubExecutor(
      (work) => (works.push(work), work.session.run(work.inputs)),
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
    const ask = (timeout: number) =>
      region.app.request(
        "/v2/models/matmul/infer",
        postRequest(body(timeout), { "x-deadline-ms": "70" }),
      );
    expect([(await ask(40_000)).status, (await ask(90_000)).status]).toEqual([200, 200]);
    const common = {
      tier: { model: "matmul", version: 1, tier: "region" },
      priority: 2,
      maxLatencyMs: 1_000,
      batching: expect.objectContaining(serving.batching),
    };
    expect(works).toEqual(
      [40, 70].map((ms) => expect.objectContaining({ ...common, expiresAtMs: clock.now() + ms })),
    );
  });

  it.each([
    ["is answered", undefined, undefined],
    ["finds the queue full", regionServerErrors.queueFull(1), "REJECTED"],
    ["waited too long", regionServerErrors.requestExpired(), "REJECTED"],
    ["has lost its client", coreErrors.requestCancelled(), "CANCELED"],
    ["breaks the runtime", coreErrors.sessionFailed("broken"), "BACKEND"],
    ["loses its worker", nativeErrors.sessionLost("by SIGKILL"), "BACKEND"],
    ["meets a worker that is being replaced", nativeErrors.sessionBeingReplaced(), "BACKEND"],
    ["meets a mistake of ours", new TypeError("broken"), "OTHER"],
  ])("that %s is told of once, with how it ended", async (_what, error, failure) => {
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
    expect(answers).toEqual([
      {
        action: "infer",
        status: response.status,
        durationMs: 7,
        requestId: expect.any(String),
        traceId: undefined,
      },
    ]);
  });

  it("that is wrong is no failure of the model's", async () => {
    const { app } = await startRegion();
    for (const body of [
      createTextBody([" "]),
      createTextBody(["good"], { outputs: [{ name: "z" }] }),
      "{",
    ])
      await app.request(infer, postRequest(body));
    expect(outcomes).toEqual([]);
    expect(answers.map(({ action, status }) => [action, status])).toEqual(
      Array.from({ length: 3 }, () => ["infer", 400]),
    );
  });

  it("is told of by what it is for, never by its path", async () => {
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
    expect(answers.map(({ action, status }) => [action, status])).toEqual([
      ["metadata", 200],
      ["model_metadata", 200],
      ["config", 200],
      ["stats", 200],
      ["other", 404],
      ["other", 404],
      ["live", 405],
    ]);
  });
});

describe("a raw binary request", () => {
  it("is read as the model's one input, or as the task's", async () => {
    const region = await startRegion();
    await publishTensorModel(
      region.store,
      "matmul",
      int8MatMulGraph(await readFixture("int8-matmul.onnx")),
      { places: ["region"] },
    );
    const raw = { "inference-header-content-length": "0" };
    const answers = await Promise.all([
      region.app.request("/v2/models/matmul/infer", postRequest(Uint8Array.of(1, 2, 3), raw)),
      region.app.request(infer, postRequest("good", raw)),
    ]);
    const shapes = answers.map(async (response) => {
      const length = Number(response.headers.get("inference-header-content-length"));
      const bytes = new Uint8Array(await response.arrayBuffer());
      const [output] = JSON.parse(new TextDecoder().decode(bytes.subarray(0, length))).outputs;
      return [output.name, output.datatype, output.shape, bytes.byteLength - length];
    });
    expect(await Promise.all(shapes)).toEqual([
      ["y", "INT32", [1, 2], 8],
      ["logits", "FP32", [1, 2], 8],
    ]);
  });
});
