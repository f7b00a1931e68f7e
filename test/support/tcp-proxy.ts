// TCP proxy in front of a real server that breaks connections on demand. Node only.
import { connect, createServer, type Socket } from "node:net";
import type { AddressInfo } from "node:net";

export interface TcpProxy {
  readonly url: string;
  /** Destination of connections; set it before the first one. */
  target: string;
  /** `resets` resets every connection, open ones too; `hangs` accepts and never answers. */
  behavior: "forwards" | "resets" | "hangs";
  /** Connections so far. */
  readonly connections: number;
  /** Bytes sent by clients so far. */
  readonly bytesSent: number;
  close(): Promise<void>;
}

export async function startTcpProxy(): Promise<TcpProxy> {
  const open = new Set<Socket>();
  let mode: TcpProxy["behavior"] = "forwards";
  let connections = 0;
  let bytesSent = 0;
  const server = createServer((client) => {
    connections++;
    open.add(client);
    client.on("close", () => open.delete(client)).on("error", () => client.destroy());
    if (mode === "resets") client.resetAndDestroy();
    if (mode !== "forwards") return;
    const { hostname, port } = new URL(proxy.target);
    const upstream = connect(Number(port), hostname);
    upstream.on("error", () => client.destroy()).on("close", () => client.destroy());
    client.on("close", () => upstream.destroy());
    client.on("data", (bytes) => {
      if (mode !== "forwards") return;
      bytesSent += bytes.byteLength;
      upstream.write(bytes);
    });
    upstream.pipe(client);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));

  const proxy: TcpProxy = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    target: "",
    get behavior() {
      return mode;
    },
    set behavior(wanted) {
      mode = wanted;
      if (wanted === "resets") for (const client of open) client.resetAndDestroy();
    },
    get connections() {
      return connections;
    },
    get bytesSent() {
      return bytesSent;
    },
    async close() {
      for (const client of open) client.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return proxy;
}
