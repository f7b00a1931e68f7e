// Large request bodies on a real port: their buffers are reused, and never shared by two requests.
import { once } from "node:events";
import { connect } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { NamedTensors } from "../../src/core/tensor.ts";
import { toMessageHeaders } from "../../src/protocol/open-inference-http.ts";
import {
  decodeInferResponse,
  encodeInferRequest,
  JSON_LENGTH_HEADER,
} from "../../src/protocol/open-inference.ts";
import { createExecutor } from "../../src/region/server/batching/create-executor.ts";
import { startRegionServer, type RegionServer } from "../../src/region/server/server.ts";
import { createNativeRuntime } from "../../src/runtime/native/native-runtime.ts";
import { publishTensorModel } from "../support/tensor-model.ts";
import {
  createCountingRuntime,
  createRegionFixture,
  readFixture,
  type RegionFixture,
} from "./region-fixture.ts";

const COUNT = 10_000;
const PATH = "/v2/models/echo/infer";
const createValues = (value: number): NamedTensors => ({
  x: { datatype: "INT64", shape: [COUNT], data: new BigInt64Array(COUNT).fill(BigInt(value)) },
});
/** Creates a request whose id has `value` characters, so that its tensor starts at any offset. */
const createRequest = (value: number) =>
  encodeInferRequest(
    {
      id: "i".repeat(value),
      inputs: createValues(value),
      parameters: { binary_data_output: true },
    },
    true,
  );

let region: RegionFixture;
let server: RegionServer;

async function startServer(runtime = createNativeRuntime({ intraOpThreads: 1 })): Promise<void> {
  region = createRegionFixture({
    runtime,
    maxBodyBytes: 200_000,
    executor: createExecutor({
      defaultBatching: { maxBatchRows: 4 * COUNT, queue: { maxQueueSize: 100 * COUNT } },
    }),
  });
  const spec = (name: string) => ({ name, datatype: "INT64" as const, shape: [-1] });
  await publishTensorModel(region.store, "echo", {
    bytes: await readFixture("int64-identity.onnx"),
    inputs: [spec("x")],
    outputs: [spec("y")],
  });
  server = await startRegionServer({
    fetch: region.app.fetch,
    lifecycle: region.lifecycle,
    host: "127.0.0.1",
    port: 0,
    drainTimeouts: { lingerMs: 0, timeoutMs: 1_000 },
  });
}

async function inferEcho(value: number): Promise<readonly bigint[]> {
  const message = createRequest(value);
  const response = await fetch(`${server.url}${PATH}`, {
    method: "POST",
    headers: toMessageHeaders(message),
    body: message.body,
  });
  expect(response.status).toBe(200);
  const { outputs } = decodeInferResponse(
    new Uint8Array(await response.arrayBuffer()),
    Number(response.headers.get(JSON_LENGTH_HEADER)),
  );
  const { data } = outputs["y"] ?? {};
  return data instanceof BigInt64Array ? [...new Set(data)] : [];
}

/** Sends a part of a request, and disconnects. */
async function disconnectEarly(value: number, bytes: number): Promise<void> {
  const { body, jsonBytes } = createRequest(value);
  const socket = connect(Number(new URL(server.url).port), "127.0.0.1");
  await once(socket, "connect");
  socket.write(
    `POST ${PATH} HTTP/1.1\r\nhost: region\r\ncontent-length: ${body.byteLength}\r\n${JSON_LENGTH_HEADER}: ${jsonBytes}\r\n\r\n`,
  );
  await new Promise((resolve) => socket.write(body.subarray(0, bytes), resolve));
  socket.destroy();
  await once(socket, "close");
}

afterEach(async () => {
  await server.stop();
  await region.repository.dispose();
});

describe("a body", () => {
  beforeEach(() => startServer());

  it("is echoed unchanged, concurrently with others and after them, at any tensor offset", async () => {
    const all = Array.from({ length: 24 }, (_, value) => value);
    for (let round = 0; round < 3; round++)
      expect(await Promise.all(all.map(inferEcho))).toEqual(all.map((value) => [BigInt(value)]));
  });

  it("that is truncated does not affect the next ones", async () => {
    await inferEcho(1);
    await disconnectEarly(2, 30_000);
    expect(await Promise.all([3, 4].map(inferEcho))).toEqual([[3n], [4n]]);
    expect(region.failures).toEqual([]);
  });

  it("above the limit is rejected before it is read", async () => {
    const response = await fetch(`${server.url}${PATH}`, {
      method: "POST",
      body: new Uint8Array(200_001),
    });
    expect(response.status).toBe(413);
    await response.body?.cancel();
  });

  it("in chunks is accepted", async () => {
    const { body, jsonBytes } = createRequest(5);
    const chunks = new ReadableStream({
      start: (controller) => (
        controller.enqueue(body.subarray(0, 100)),
        controller.enqueue(body.subarray(100)),
        controller.close()
      ),
    });
    const response = await fetch(`${server.url}${PATH}`, {
      method: "POST",
      headers: { [JSON_LENGTH_HEADER]: `${jsonBytes}` },
      body: chunks,
      duplex: "half",
    } as RequestInit);
    expect(response.status).toBe(200);
    await response.body?.cancel();
  });
});

it("keeps the buffer of a request while its run reads it, although the client has disconnected", async () => {
  const held = Promise.withResolvers<void>();
  const started = Promise.withResolvers<NamedTensors>();
  const { runtime } = createCountingRuntime();
  await startServer({
    name: "holding",
    async createSession(model, options) {
      const session = await runtime.createSession(model, options);
      return {
        ...session,
        async run(inputs) {
          if (inputs["x"]?.data[0] === 7n) {
            started.resolve(inputs);
            await held.promise;
          }
          return await session.run(inputs);
        },
      };
    },
  });
  const client = new AbortController();
  const message = createRequest(7);
  const pending = fetch(`${server.url}${PATH}`, {
    method: "POST",
    headers: toMessageHeaders(message),
    body: message.body,
    signal: client.signal,
  });
  const outcome = Promise.allSettled([pending]);
  const { x } = await started.promise;
  client.abort();
  expect(await outcome).toMatchObject([{ status: "rejected" }]);
  await expect.poll(() => region.lifecycle.inFlight).toBe(0);
  const next = inferEcho(8); // Waits for the previous run.
  await expect.poll(() => region.lifecycle.inFlight).toBe(1);
  held.resolve();
  expect(await next).toEqual([8n]);
  expect(new Set(x?.data as BigInt64Array)).toEqual(new Set([7n]));
});
