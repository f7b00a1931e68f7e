// Region server process: settings, startup, and shutdown by SIGTERM under load.
// All tests share one S3 server, which makes the file long.
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { request } from "node:http";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { text as readText } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { regionServerErrors } from "../../src/region/server/errors.ts";
import { createS3ObjectStore } from "../../src/registry/drivers/s3.ts";
import { createModelStore } from "../../src/registry/object-model-store.ts";
import { startTestS3, type TestS3 } from "../support/local-s3.ts";
import { postRequest, publishMoodModel, createTextBody } from "./region-fixture.ts";

const ENTRY = fileURLToPath(new URL("../../functions/region/main.ts", import.meta.url));
let s3: TestS3;
let folder: string;
const childProcesses: ChildProcess[] = [];

beforeAll(async () => {
  s3 = await startTestS3();
  const store = createModelStore(createS3ObjectStore(s3.options));
  await publishMoodModel(store, {
    tiers: { heavy: "bag-of-tokens.onnx", slow: "slow-bag-of-tokens.onnx" },
  });
  for (const model of ["one", "two"]) await publishMoodModel(store, { model });
  folder = await mkdtemp(join(tmpdir(), "edgetier-region-"));
}, 60_000);
afterAll(async () => {
  await s3.stop();
  await rm(folder, { recursive: true });
});
afterEach(() => {
  for (const child of childProcesses.splice(0)) child.kill("SIGKILL");
});

/** Starts the server; `events` and `messages` grow while it writes. */
function startProcess(variables: Readonly<Record<string, string>>) {
  const { endpoint, bucket, accessKeyId, secretAccessKey } = s3.options;
  const child = spawn(process.execPath, [ENTRY], {
    env: {
      PATH: process.env["PATH"],
      EDGETIER_S3_ENDPOINT: endpoint,
      EDGETIER_S3_BUCKET: bucket,
      EDGETIER_S3_ACCESS_KEY_ID: accessKeyId,
      EDGETIER_S3_SECRET_ACCESS_KEY: secretAccessKey,
      EDGETIER_REGION_PORT: "0",
      EDGETIER_REGION_PRELOAD: "mood@1",
      EDGETIER_REGION_THREADS: "1",
      // Keeps a server busy for as long as it has requests.
      EDGETIER_REGION_BATCHING: "off",
      EDGETIER_REGION_SHARED_RUNS: "off",
      ...variables,
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  childProcesses.push(child);
  const events: Record<string, unknown>[] = [];
  const messages: string[] = [];
  createInterface({ input: child.stdout }).on("line", (line) => events.push(JSON.parse(line)));
  createInterface({ input: child.stderr }).on("line", (line) => messages.push(line));
  return {
    child,
    events,
    messages,
    exit: once(child, "exit").then(([code, signal]: (string | number | null)[]) => ({
      code,
      signal,
    })),
  };
}

async function startReadyProcess(variables: Readonly<Record<string, string>> = {}) {
  const server = startProcess(variables);
  await expect
    .poll(() => server.events.find((event) => event["event"] === "listening"), { timeout: 10_000 })
    .toBeDefined();
  const url = String(server.events.find((event) => event["event"] === "listening")?.["url"]);
  const readiness = async () => (await fetch(`${url}/v2/health/ready`)).status;
  await expect.poll(readiness, { timeout: 10_000 }).toBe(200);
  const infer = async (tier: string) =>
    await fetch(
      `${url}/v2/models/mood/versions/1/infer`,
      postRequest(createTextBody(["good"], { parameters: { tier } })),
    );
  const eventsNamed = (name: string) => server.events.filter((event) => event["event"] === name);
  return { ...server, url, infer, readiness, eventsNamed };
}

async function writeModelsFile(content: object): Promise<Record<string, string>> {
  const path = join(folder, "models.json");
  await writeFile(path, JSON.stringify(content));
  return { EDGETIER_REGION_MODELS: path };
}

describe("a started server", () => {
  it("loads its models from S3 before it is ready, and answers requests", async () => {
    const { events, infer } = await startReadyProcess();
    const names = events.map((event) => String(event["event"]));
    expect(names.filter((name) => !name.startsWith("session_worker"))).toEqual([
      "listening",
      "model_loaded",
      "ready",
    ]);
    const response = await infer("heavy");
    expect((await response.json()).outputs[0]).toMatchObject({ name: "logits", data: [1, 0] });
  });

  it("serves if a preloaded model does not exist", async () => {
    const { events, infer } = await startReadyProcess({
      EDGETIER_REGION_PRELOAD: "other@1, mood@1",
    });
    expect(events).toContainEqual(
      expect.objectContaining({
        event: "model_failed",
        model: "other",
        error: expect.stringContaining("'other'"),
      }),
    );
    expect((await infer("heavy")).status).toBe(200);
  });

  it("reports every invalid setting, and exits with 1", async () => {
    const { exit, messages, events } = startProcess({
      EDGETIER_S3_ENDPOINT: "s3.local",
      EDGETIER_S3_BUCKET: "",
      EDGETIER_REGION_PORT: "80a",
      EDGETIER_REGION_PRELOAD: "intent,../x",
    });
    expect(await exit).toEqual({ code: 1, signal: null });
    const text = messages.join("\n");
    for (const name of [
      "EDGETIER_S3_ENDPOINT",
      "EDGETIER_S3_BUCKET",
      "EDGETIER_REGION_PORT",
      '"../x"',
      "EDGETIER_REGION_PRELOAD",
    ])
      expect(text).toContain(name);
    expect(text).not.toMatch(/ {4}at |\.ts:/);
    expect(events).toEqual([]);
  });

  it("reports the variable to change if its port is in use, and exits with 1", async () => {
    const other = createServer().listen(0, "127.0.0.1");
    await once(other, "listening");
    const address = other.address();
    const port = typeof address === "object" && address !== null ? address.port : 0;
    const { exit, messages } = startProcess({ EDGETIER_REGION_PORT: `${port}` });
    expect(await exit).toEqual({ code: 1, signal: null });
    expect(messages).toHaveLength(1);
    expect(messages[0]).toContain(String(port));
    expect(messages[0]).toContain("EDGETIER_REGION_PORT=<port>");
    other.close();
  });
});

describe("a server with a models file", () => {
  it("applies instances, versions and warm-up files before it is ready", async () => {
    await writeFile(join(folder, "ids.bin"), new BigInt64Array([4n, 5n]));
    const inputs = {
      input_ids: { datatype: "INT64", shape: [2], data: { file: "ids.bin" } },
      attention_mask: { datatype: "INT64", shape: [2], data: "random" },
    };
    const mood = {
      preload: true,
      versions: { specific: [1] },
      tiers: {
        heavy: { instances: 2, warmup: [{ name: "batches", batchRows: [1, 4], count: 3, inputs }] },
      },
    };
    const { infer, eventsNamed, url } = await startReadyProcess({
      ...(await writeModelsFile({ mood })),
      EDGETIER_REGION_PRELOAD: "",
    });
    expect(eventsNamed("model_loaded")).toEqual([
      expect.objectContaining({ model: "mood", version: 1 }),
    ]);
    expect(eventsNamed("session_worker_started").map((event) => event["label"])).toEqual([
      "mood@1/heavy",
      "mood@1/heavy",
      "mood@1/slow",
    ]);
    expect(
      (await Promise.all(Array.from({ length: 8 }, () => infer("heavy")))).map(
        ({ status }) => status,
      ),
    ).toEqual(Array(8).fill(200));
    expect(
      (await fetch(`${url}/v2/models/mood/versions/2/infer`, postRequest(createTextBody(["good"]))))
        .status,
    ).toBe(404);
  });
});

describe("a server with a faulty models file", () => {
  it("reports a model whose warm-up fails, and serves the others", async () => {
    const mood = {
      tiers: {
        heavy: {
          warmup: [
            { name: "odd one", inputs: { z: { datatype: "INT64", shape: [1], data: "zero" } } },
          ],
        },
      },
    };
    const { eventsNamed, url, infer } = await startReadyProcess({
      ...(await writeModelsFile({ mood })),
      EDGETIER_REGION_PRELOAD: "mood@1,one@1",
    });
    expect(eventsNamed("model_failed")).toEqual([
      expect.objectContaining({
        model: "mood",
        version: 1,
        error: expect.stringMatching(/"odd one, 1 row".*\bheavy\b/),
      }),
    ]);
    expect((await infer("heavy")).status).toBe(503);
    expect((await fetch(`${url}/v2/models/one/versions/1/ready`)).status).toBe(200);
  });

  it("reports every problem of an invalid file, and exits with 1", async () => {
    const { exit, messages } = startProcess(
      await writeModelsFile({
        mood: {
          instances: 0,
          warmup: [{ name: "w", inputs: { x: { datatype: "FP32", shape: [], data: "ones" } } }],
        },
      }),
    );
    expect(await exit).toEqual({ code: 1, signal: null });
    for (const part of [
      "EDGETIER_REGION_MODELS",
      "models.json",
      "mood.instances",
      "mood.warmup.0.inputs.x.data",
    ])
      expect(messages.join("\n")).toContain(part);
    expect(messages.join("\n")).not.toMatch(/ {4}at |\.ts:/);
  });
});

it("coalesces identical concurrent requests", async () => {
  const { infer, url } = await startReadyProcess({
    EDGETIER_REGION_SHARED_RUNS: "on",
    EDGETIER_REGION_BATCHING: "fixed",
  });
  const runs = async () =>
    (await (await fetch(`${url}/v2/models/mood/versions/1/stats`)).json()).model_stats[0];
  const before = (await runs()).execution_count;
  const answers = await Promise.all(
    Array.from({ length: 64 }, async () => (await (await infer("slow")).json()).outputs[0].data),
  );
  expect(new Set(answers.map(String)).size).toBe(1);
  const { execution_count: after, inference_stats } = await runs();
  console.log(
    `64 identical concurrent requests: ${after - before} runs, ${inference_stats.cache_hit.count} coalesced`,
  );
  expect(after - before).toBeLessThan(8); // Requests that arrive after a run has ended start another run.
  expect(inference_stats.cache_hit.count).toBeGreaterThan(56);
});

it("polls for new versions if polling is enabled", async () => {
  const store = createModelStore(createS3ObjectStore(s3.options));
  await store.writeAliases("one", { stable: 1 }, undefined);
  const { eventsNamed } = await startReadyProcess({
    EDGETIER_REGION_PRELOAD: "one",
    EDGETIER_REGION_POLL_MS: "200",
  });
  const versions = () => eventsNamed("model_loaded").map((event) => event["version"]);
  expect(versions()).toEqual([1]);
  await publishMoodModel(store, { model: "one", version: 2 });
  await store.writeAliases("one", { stable: 2 }, (await store.readAliases("one"))?.etag);
  await expect.poll(versions, { timeout: 15_000 }).toEqual([1, 2]);
});

it("evicts the least recently used model and its process to stay within the budget, and loads it again", async () => {
  const first = await startReadyProcess({ EDGETIER_REGION_PRELOAD: "one@1" });
  const bytes = Number(first.eventsNamed("model_loaded")[0]?.["bytes"]);
  first.child.kill("SIGTERM");
  await first.exit;

  const { eventsNamed, url } = await startReadyProcess({
    EDGETIER_REGION_PRELOAD: "one@1",
    EDGETIER_REGION_MODEL_BUDGET_BYTES: String(Math.round(1.5 * bytes)),
  });
  const infer = async (model: string) =>
    (
      await fetch(
        `${url}/v2/models/${model}/versions/1/infer`,
        postRequest(createTextBody(["good"])),
      )
    ).status;
  const isRunning = (pid: unknown) => {
    try {
      return process.kill(Number(pid), 0);
    } catch {
      return false;
    }
  };
  const pid = eventsNamed("session_worker_started")[0]?.["pid"];
  expect(isRunning(pid)).toBe(true);
  expect(await infer("two")).toBe(200);
  expect(eventsNamed("model_evicted")).toEqual([expect.objectContaining({ model: "one" })]);
  await expect.poll(() => isRunning(pid)).toBe(false);
  expect(await infer("one")).toBe(200);
  expect(eventsNamed("model_evicted").map((event) => event["model"])).toEqual(["one", "two"]);
});

/** Sends slow requests on separate connections; resolves once the server has accepted them all. */
async function sendConcurrentRequests(url: string, count: number) {
  const sending = Array.from({ length: count }, () => {
    const {
      promise: answer,
      resolve,
      reject,
    } = Promise.withResolvers<{ status: number | undefined; outputs: { data: number[] }[] }>();
    const outgoing = request(
      `${url}/v2/models/mood/versions/1/infer`,
      { method: "POST", agent: false, headers: { expect: "100-continue" } },
      async (incoming) => {
        const body = JSON.parse(await readText(incoming).catch(() => "{}"));
        resolve({ status: incoming.statusCode, outputs: body.outputs });
      },
    );
    // The server answers 100 when it starts a request. A request that is only sent may still wait in the accept queue;
    // a stopping server rightly rejects it or closes its connection.
    const accepted = once(outgoing, "continue");
    outgoing
      .on("continue", () =>
        outgoing.end(createTextBody(["good"], { parameters: { tier: "slow" } })),
      )
      .on("error", reject);
    return { answer, accepted };
  });
  await Promise.all(sending.map(({ accepted }) => accepted));
  return sending.map(({ answer }) => answer);
}

describe.each(["SIGTERM", "SIGINT"] as const)("%s under load", (signal) => {
  it("makes the server not ready, answers accepted requests, rejects new ones, and exits with 0", async () => {
    const { child, exit, infer, readiness, events, url } = await startReadyProcess();
    const busy = await sendConcurrentRequests(url, 12);
    child.kill(signal);
    await expect.poll(readiness, { interval: 5, timeout: 5_000 }).toBe(400);
    await expect
      .poll(async () => (await infer("heavy")).json(), { interval: 5, timeout: 5_000 })
      .toEqual({ error: regionServerErrors.draining().message });

    for (const answer of await Promise.all(busy))
      expect(answer).toMatchObject({ status: 200, outputs: [{ data: [1, 0] }] });
    expect(await exit).toEqual({ code: 0, signal: null });
    expect(events.at(-1)).toMatchObject({ event: "stopped", complete: true });
  });
});

it("answers accepted requests that are batched before it stops", async () => {
  const { child, exit, url } = await startReadyProcess({ EDGETIER_REGION_BATCHING: "adaptive" });
  const busy = await sendConcurrentRequests(url, 24);
  child.kill("SIGTERM");
  for (const answer of await Promise.all(busy))
    expect(answer).toMatchObject({ status: 200, outputs: [{ data: [1, 0] }] });
  expect(await exit).toEqual({ code: 0, signal: null });
});

it("aborts work that exceeds the drain timeout, and exits with 1", async () => {
  const { child, exit, url } = await startReadyProcess({ EDGETIER_DRAIN_TIMEOUT_MS: "300" });
  const busy = await sendConcurrentRequests(url, 16);
  child.kill("SIGTERM");
  expect((await Promise.allSettled(busy)).some(({ status }) => status === "rejected")).toBe(true);
  expect(await exit).toEqual({ code: 1, signal: null });
});

it("stops at a SIGTERM if it is idle, even with an open connection", async () => {
  const { child, exit, infer } = await startReadyProcess();
  await (await infer("heavy")).text(); // Leaves a keep-alive connection open.
  child.kill("SIGTERM");
  expect(await exit).toEqual({ code: 0, signal: null });
});
