// Holding proxy: an HTTP proxy that holds a request until the next one arrives, so that a call is certainly hedged.
import { type IncomingMessage, request as send, type ServerResponse } from "node:http";
import { startTestHttpServer, type TestHttpServer } from "./test-http-server.ts";

export interface HoldingProxy extends TestHttpServer {
  /** Holds the next request until another one arrives. */
  holdNext(): void;
}

/** @param target address to which requests are forwarded */
export async function startHoldingProxy(target: string): Promise<HoldingProxy> {
  let isToHold = false;
  let release: (() => void) | undefined;

  const server = await startTestHttpServer((incoming, response) => {
    if (isToHold) {
      isToHold = false;
      release = () => forward(target, incoming, response);
      return;
    }
    forward(target, incoming, response);
    release?.();
    release = undefined;
  });
  return { ...server, holdNext: () => void (isToHold = true) };
}

function forward(target: string, incoming: IncomingMessage, response: ServerResponse): void {
  const { method, headers, url = "" } = incoming;
  const outgoing = send(new URL(url, target), { method, headers }, (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.headers);
    answer.pipe(response);
  });
  outgoing.on("error", () => response.destroy());
  response.on("close", () => outgoing.destroy());
  incoming.pipe(outgoing);
}
