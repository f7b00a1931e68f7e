// The client of loads against real sockets: how many it opens, what it waits for, and what it gives up.
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
  it("uses its connections again, and opens no more than it may", async () => {
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

  it("begins paths where its address ends, and sends what a call says", async () => {
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

  it("gives a call up in time, and frees its connection", async () => {
    let calls = 0;
    const { send } = await startServer((_, response) => void (calls++ > 0 && response.end("ok")), {
      connections: 1,
    });
    await expect(send({ path: "/" }, { timeoutMs: 30 })).rejects.toMatchObject({
      name: "TimeoutError",
    });
    expect((await send({ path: "/" })).status).toBe(200);
  });

  it("gives up an answer that never ends, too", async () => {
    const { send } = await startServer((_, response) => void response.write("half"));
    await expect(send({ path: "/" }, { timeoutMs: 50 })).rejects.toMatchObject({
      name: "TimeoutError",
    });
  });

  it("asks again where a connection was closed just when it was used again", async () => {
    let calls = 0;
    const { send } = await startServer(
      (request, response) =>
        void (++calls === 2 ? request.socket.resetAndDestroy() : response.end("ok")),
    );
    await send({ path: "/" });
    expect((await send({ path: "/" })).body).toBe("ok");
    expect([calls, send.openedConnections()]).toEqual([3, 2]);
  });

  it("does not ask again on a new connection, nor when it was closed", async () => {
    const { send } = await startServer((request) => request.socket.resetAndDestroy());
    await expect(send({ path: "/" })).rejects.toMatchObject({ code: "ECONNRESET" });
    const { send: other } = await startServer(() => other.close());
    await expect(other({ path: "/" })).rejects.toMatchObject({ code: "ECONNRESET" });
  });
});
