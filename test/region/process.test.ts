// The region server as a process: its settings, its start, and a SIGTERM under load.
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { request } from "node:http";
import { createServer } from "node:net";
import { createInterface } from "node:readline";
import { text as readText } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { createS3ObjectStore } from "../../src/registry/drivers/s3.ts";
import { createModelStore } from "../../src/registry/store.ts";
import { startTestS3, type TestS3 } from "../support/local-s3.ts";
import { post, publish, textBody } from "./world.ts";

const ENTRY = fileURLToPath(new URL("../../functions/region/main.ts", import.meta.url));
let s3: TestS3;
const children: ChildProcess[] = [];

beforeAll(async () => {
  s3 = await startTestS3();
  await publish(createModelStore(createS3ObjectStore(s3.options)), { tiers: { heavy: "bag-of-tokens.onnx", slow: "slow-bag-of-tokens.onnx" } });
}, 60_000);
afterAll(() => s3.stop());
afterEach(() => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
});

/** Starts the server; `output` grows as it writes. */
function start(variables: Readonly<Record<string, string>>) {
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
      EDGETIER_REGION_BATCHING: "off", // so that a server is busy for as long as it has requests
      ...variables,
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  children.push(child);
  const events: Record<string, unknown>[] = [];
  const messages: string[] = [];
  createInterface({ input: child.stdout }).on("line", (line) => events.push(JSON.parse(line)));
  createInterface({ input: child.stderr }).on("line", (line) => messages.push(line));
  return { child, events, messages, exit: once(child, "exit") as Promise<[number | null, string | null]> };
}

async function startReady(variables: Readonly<Record<string, string>> = {}) {
  const server = start(variables);
  await expect.poll(() => server.events.find((one) => one["event"] === "listening"), { timeout: 10_000 }).toBeDefined();
  const url = String(server.events.find((one) => one["event"] === "listening")?.["url"]);
  const readiness = async () => (await fetch(`${url}/v2/health/ready`)).status;
  await expect.poll(readiness, { timeout: 10_000 }).toBe(200);
  const infer = async (tier: string) => await fetch(`${url}/v2/models/mood/versions/1/infer`, post(textBody(["good"], { parameters: { tier } })));
  return { ...server, url, infer, readiness };
}

describe("started", () => {
  it("loads its models from S3 before it is ready, and answers", async () => {
    const { events, infer } = await startReady();
    expect(events.map((one) => one["event"])).toEqual(["listening", "model_loaded", "ready"]);
    const response = await infer("heavy");
    expect((await response.json()).outputs[0]).toMatchObject({ name: "logits", data: [1, 0] });
  });

  it("serves although a model that it should load is not there", async () => {
    const { events, infer } = await startReady({ EDGETIER_REGION_PRELOAD: "other@1, mood@1" });
    expect(events).toContainEqual(expect.objectContaining({ event: "model_failed", model: "other", error: expect.stringContaining('no model "other"') }));
    expect((await infer("heavy")).status).toBe(200);
  });

  it("with wrong settings names every one of them, and exits with 1", async () => {
    const { exit, messages, events } = start({ EDGETIER_S3_ENDPOINT: "s3.local", EDGETIER_S3_BUCKET: "", EDGETIER_REGION_PORT: "80a", EDGETIER_REGION_PRELOAD: "intent,../x" });
    expect(await exit).toEqual([1, null]);
    const text = messages.join("\n");
    for (const name of ["EDGETIER_S3_ENDPOINT", "EDGETIER_S3_BUCKET", "EDGETIER_REGION_PORT", 'EDGETIER_REGION_PRELOAD: "../x"']) expect(text).toContain(name);
    expect(text).not.toMatch(/ {4}at |\.ts:/);
    expect(events).toEqual([]);
  });

  it("on a port in use says which variable to change, and exits with 1", async () => {
    const other = createServer().listen(0, "127.0.0.1");
    await once(other, "listening");
    const address = other.address();
    const port = typeof address === "object" && address !== null ? address.port : 0;
    const { exit, messages } = start({ EDGETIER_REGION_PORT: `${port}` });
    expect(await exit).toEqual([1, null]);
    expect(messages.join("\n")).toBe(`Port ${port} for the region server is in use. Stop what listens there, or choose another: EDGETIER_REGION_PORT=<port>.`);
    other.close();
  });
});

/** Sends requests that keep the server busy for a while, all on connections of their own; they have left when this resolves. */
async function keepBusy(url: string, count: number) {
  const sending = Array.from({ length: count }, () => {
    const { promise: answer, resolve, reject } = Promise.withResolvers<{ status: number | undefined; outputs: { data: number[] }[] }>();
    const outgoing = request(`${url}/v2/models/mood/versions/1/infer`, { method: "POST", agent: false }, async (incoming) => {
      const body = JSON.parse(await readText(incoming).catch(() => "{}"));
      resolve({ status: incoming.statusCode, outputs: body.outputs });
    });
    outgoing.on("error", reject).end(textBody(["good"], { parameters: { tier: "slow" } }));
    return { answer, sent: once(outgoing, "finish") };
  });
  await Promise.all(sending.map((one) => one.sent));
  return sending.map((one) => one.answer);
}

describe.each(["SIGTERM", "SIGINT"] as const)("%s under load", (signal) => {
  it("makes it not ready, answers what it has taken, takes no more, and ends with 0", async () => {
    const { child, exit, infer, readiness, events, url } = await startReady();
    const busy = await keepBusy(url, 12);
    child.kill(signal);
    await expect.poll(readiness, { interval: 5, timeout: 5_000 }).toBe(400);
    await expect.poll(async () => (await infer("heavy")).json(), { interval: 5, timeout: 5_000 }).toEqual({ error: expect.stringContaining("shutting down") });

    for (const answer of await Promise.all(busy)) expect(answer).toMatchObject({ status: 200, outputs: [{ data: [1, 0] }] });
    expect(await exit).toEqual([0, null]);
    expect(events.at(-1)).toMatchObject({ event: "stopped", complete: true });
  });
});

it("answers what it has taken in batches, too", async () => {
  const { child, exit, url } = await startReady({ EDGETIER_REGION_BATCHING: "adaptive" });
  const busy = await keepBusy(url, 24);
  child.kill("SIGTERM");
  for (const answer of await Promise.all(busy)) expect(answer).toMatchObject({ status: 200, outputs: [{ data: [1, 0] }] });
  expect(await exit).toEqual([0, null]);
});

it("work that outlasts the drain is cut off, and the exit code says so", async () => {
  const { child, exit, url } = await startReady({ EDGETIER_DRAIN_TIMEOUT_MS: "300" });
  const busy = await keepBusy(url, 16);
  child.kill("SIGTERM");
  expect((await Promise.allSettled(busy)).some((one) => one.status === "rejected")).toBe(true);
  expect(await exit).toEqual([1, null]);
});

it("idle, a SIGTERM ends it, open connections or not", async () => {
  const { child, exit, infer } = await startReady();
  await (await infer("heavy")).text(); // leaves a connection open
  child.kill("SIGTERM");
  expect(await exit).toEqual([0, null]);
});
