// Test HTTP server: answers on a free loopback port with a handler of the test. It shows faults that a real store does not.
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

/** Returns an address where nothing listens. */
export async function getUnreachableUrl(): Promise<string> {
  const server = await startTestHttpServer(() => {});
  await server.stop();
  return server.url;
}
