// Named regions: Open Inference Protocol servers that answer with their names, one quickly and one slowly. A third address has
// no listener. For region pools inside workerd. Node only.
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";

export interface NamedRegions {
  readonly urls: { readonly fast: string; readonly slow: string; readonly unreachable: string };
  stop(): void;
}

const SLOW_MS = 5_000;

export async function startNamedRegions(): Promise<NamedRegions> {
  const [quick, slow, refusing] = [
    await startServer("quick", 0),
    await startServer("slow", SLOW_MS),
    await startServer("refusing", 0),
  ];
  const urls = { fast: urlOf(quick), slow: urlOf(slow), unreachable: urlOf(refusing) };
  refusing.close();
  return {
    urls,
    stop() {
      for (const server of [quick, slow]) {
        server.closeAllConnections();
        server.close();
      }
    },
  };
}

async function startServer(name: string, afterMs: number): Promise<Server> {
  const answer = JSON.stringify({
    model_name: "mood",
    outputs: [{ name: "from", datatype: "BYTES", shape: [1], data: [name] }],
  });
  const server = createServer((incoming, response) => {
    incoming.resume();
    const timer = setTimeout(
      () => response.writeHead(200, { "content-type": "application/json" }).end(answer),
      afterMs,
    );
    response.on("close", () => clearTimeout(timer));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  return server;
}

const urlOf = (server: Server): string =>
  `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
