// A small HTTP server on a free loopback port that answers as a test tells it to: for faults a real store does not show.
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";

export interface TestHttpServer {
  readonly url: string;
  stop(): Promise<void>;
}

export async function startTestHttpServer(answer: RequestListener): Promise<TestHttpServer> {
  const server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** An address where nothing listens. */
export async function getUnreachableUrl(): Promise<string> {
  const server = await startTestHttpServer(() => {});
  await server.stop();
  return server.url;
}
