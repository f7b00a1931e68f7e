// Tests the load client with real sockets: its connections, its time-outs and its retries.
import type { IncomingMessage, ServerResponse } from "node:http";
import { afterEach, describe, expect, it } from "vitest";
import { createSender, type Sender } from "../../../src/cli/load/http-sender.ts";
import { startTestHttpServer, type TestHttpServer } from "../../support/test-http-server.ts";

const stops: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).toReversed()) await stop();
});

async function startServer(
  answer: (request: IncomingMessage, response: ServerResponse) => void,
  { connections = 4, path = "" } = {},
): Promise<{ server: TestHttpServer; send: Sender }> {
  const server = await startTestHttpServer(answer);
  const send = createSender(`${server.url}${path}`, connections);
  stops.push(server.stop, send.close);
  return { server, send };
}

describe("a sender", () => {
  it("reuses its connections, and opens at most the given number", async () => {
    const waiting: ServerResponse[] = [];
    const answerThree = (_: IncomingMessage, response: ServerResponse) => {
      if (waiting.push(response) === 3) for (const one of waiting.splice(0)) one.end("ok");
    };
    const { send } = await startServer(answerThree, { connections: 3 });
    const replies = await Promise.all(Array.from({ length: 30 }, () => send({ path: "/" })));
    expect(replies.map(({ status, body }) => `${status} ${body}`)).toEqual(
      Array.from({ length: 30 }, () => "200 ok"),
    );
    expect(send.openedConnections()).toBe(3);
    expect(replies.at(-1)?.connectionWaitMs).toBeGreaterThan(replies[0]?.connectionWaitMs ?? 0);
  });

  it("appends paths to its address, and sends the body and headers of a call", async () => {
    const { send } = await startServer(
      (request, response) => {
        request
          .setEncoding("utf8")
          .on("data", (body) =>
            response.end(
              JSON.stringify([
                request.method,
                request.url,
                request.headers["content-type"],
                request.headers["x-own"],
                body,
              ]),
            ),
          );
      },
      { path: "/base/" },
    );
    const { body } = await send({
      path: "/v1/x",
      body: "text",
      headers: { "content-type": "text/plain", "x-own": "1" },
    });
    expect(JSON.parse(body)).toEqual(["POST", "/base/v1/x", "text/plain", "1", "text"]);
  });

  it("aborts a call at its time-out, and frees its connection", async () => {
    let calls = 0;
    const { send } = await startServer((_, response) => void (calls++ > 0 && response.end("ok")), {
      connections: 1,
    });
    await expect(send({ path: "/" }, { timeoutMs: 30 })).rejects.toMatchObject({
      name: "TimeoutError",
    });
    expect((await send({ path: "/" })).status).toBe(200);
  });

  it("aborts an endless response at its time-out", async () => {
    const { send } = await startServer((_, response) => void response.write("half"));
    await expect(send({ path: "/" }, { timeoutMs: 50 })).rejects.toMatchObject({
      name: "TimeoutError",
    });
  });
});

describe("retries of a sender", () => {
  it("follow a reset of a reused connection", async () => {
    let calls = 0;
    const { send } = await startServer(
      (request, response) =>
        void (++calls === 2 ? request.socket.resetAndDestroy() : response.end("ok")),
    );
    await send({ path: "/" });
    expect((await send({ path: "/" })).body).toBe("ok");
    expect({ calls, openedConnections: send.openedConnections() }).toEqual({
      calls: 3,
      openedConnections: 2,
    });
  });

  it("do not follow a reset of a new connection, nor the closing of the sender", async () => {
    const { send } = await startServer((request) => request.socket.resetAndDestroy());
    await expect(send({ path: "/" })).rejects.toMatchObject({ code: "ECONNRESET" });
    const { send: other } = await startServer(() => other.close());
    await expect(other({ path: "/" })).rejects.toMatchObject({ code: "ECONNRESET" });
  });
});
