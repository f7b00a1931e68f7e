// Tests bodies that aim to exhaust memory, on the processes of the Worker and of the region. Each is rejected while it arrives,
// and the memory of the process stays small.
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startListeningChild } from "../../src/cli/local/listening-child.ts";
import { REGION_ENTRY } from "../../src/cli/local/paths.ts";
import { bundleWorker } from "../../src/cli/local/upload.ts";
import { startWorkerdEdge } from "../../src/cli/local/workerd-edge.ts";
import { getUnreachableUrl } from "../support/test-http-server.ts";

const MIB = 1_048_576;
const MAX_GROWTH_MIB = 32;
const MAX_TRIES = 20;
/** With the limits that are the defaults. */
const EDGE = { path: "/v1/models/intent/predict", limit: 262_144, taken: 400 };
/** Without a store there is no model, and without one nothing is parsed. */
const REGION = { path: "/v2/models/intent/infer", limit: 8_388_608, taken: 503 };
const JSON_TYPE = { "content-type": "application/json" };
const GZIP = { ...JSON_TYPE, "content-encoding": "gzip" };

const gzipBomb = gzipSync(Buffer.alloc(100 * MIB));
const spaces = (bytes: number) => Buffer.alloc(bytes, 0x20);
const repeated = function* (chunk: Uint8Array, count: number) {
  for (let index = 0; index < count; index++) yield chunk;
};

interface Attack {
  readonly name: string;
  readonly headers: Record<string, string>;
  readonly chunks: () => Iterable<Uint8Array>;
  /** The length is told beforehand. */
  readonly contentLength?: number;
  readonly status: number;
}

/** @param taken the status of a body that is within the limit, and is no request */
const attacks = ({ limit, taken }: typeof EDGE): Attack[] => [
  {
    name: "100 kB of gzip that are 100 MB",
    headers: GZIP,
    chunks: () => [gzipBomb],
    contentLength: gzipBomb.byteLength,
    status: 413,
  },
  {
    name: "the same in pieces",
    headers: GZIP,
    chunks: () => splitIntoChunks(gzipBomb, 1_000),
    status: 413,
  },
  {
    name: "65,537 chunks of a byte",
    headers: JSON_TYPE,
    chunks: () => repeated(spaces(1), 65_537),
    status: taken,
  },
  {
    name: "chunks without an end",
    headers: JSON_TYPE,
    chunks: () => repeated(spaces(16_384), Infinity),
    status: 413,
  },
  {
    name: "a length that is a byte too much",
    headers: JSON_TYPE,
    chunks: () => [spaces(limit + 1)],
    contentLength: limit + 1,
    status: 413,
  },
  {
    name: "gzip that is a byte too much",
    headers: GZIP,
    chunks: () => [gzipSync(spaces(limit + 1))],
    status: 413,
  },
  {
    name: "JSON 120 deep",
    headers: JSON_TYPE,
    chunks: () => [Buffer.from("[".repeat(120) + "]".repeat(120))],
    status: taken,
  },
  {
    name: "JSON 125,000 deep, closed",
    headers: JSON_TYPE,
    chunks: () => [Buffer.from("[".repeat(125_000) + "]".repeat(125_000))],
    status: taken,
  },
  {
    name: "JSON 250,000 deep",
    headers: JSON_TYPE,
    chunks: () => [Buffer.from("[".repeat(250_000))],
    status: taken,
  },
];

function* splitIntoChunks(bytes: Uint8Array, size: number) {
  for (let at = 0; at < bytes.byteLength; at += size) yield bytes.subarray(at, at + size);
}

/**
 * Sends an attack until a try shows its status. A server may answer and close the connection while the client still sends.
 * The reset may then discard the answer (RFC 9112, section 9.6).
 * @returns the status; 0 if no try has shown one
 */
async function send(
  url: string,
  attack: Pick<Attack, "headers" | "chunks" | "contentLength">,
): Promise<number> {
  for (let tries = 1; ; tries++) {
    const status = await sendOnce(url, attack);
    if (status !== 0 || tries === MAX_TRIES) return status;
  }
}

/** Over a socket of its own. @returns the status, or 0 */
async function sendOnce(
  url: string,
  { headers, chunks, contentLength: bytes }: Pick<Attack, "headers" | "chunks" | "contentLength">,
): Promise<number> {
  const { hostname, port, pathname } = new URL(url);
  const socket = connect(Number(port), hostname);
  const { promise, resolve } = Promise.withResolvers<number>();
  let answer = "";
  socket.on("data", (data) => {
    answer += data.toString("latin1");
    if (answer.length >= 12) resolve(Number(answer.slice(9, 12)));
  });
  socket.on("error", () => {}); // of what was still to be sent
  socket.once("close", () => resolve(Number(answer.slice(9, 12))));
  const over = promise.then(() => true);
  await once(socket, "connect");
  const length = bytes === undefined ? "transfer-encoding: chunked" : `content-length: ${bytes}`;
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(
    `POST ${pathname} HTTP/1.1\r\nhost: ${hostname}\r\n${lines.join("")}${length}\r\n\r\n`,
  );
  for (const chunk of chunks()) {
    if (bytes === undefined) socket.write(`${chunk.byteLength.toString(16)}\r\n`);
    const isFull = !socket.write(chunk);
    if (bytes === undefined) socket.write("\r\n");
    await setImmediate(); // what has come is read before more is written
    if (
      socket.destroyed ||
      (isFull &&
        (await Promise.race([
          over,
          once(socket, "drain").then(
            () => false,
            () => true,
          ),
        ])))
    )
      break;
  }
  if (bytes === undefined) socket.write("0\r\n\r\n");
  const status = await promise;
  socket.destroy();
  return status;
}

/** Reads the process's memory from the kernel: now, or the peak since `resetPeak`. */
const memoryBytes = async (pid: number, field: "VmRSS" | "VmHWM") =>
  Number(
    new RegExp(`${field}:\\s+(\\d+) kB`).exec(await readFile(`/proc/${pid}/status`, "utf8"))?.[1],
  ) * 1_024;
const residentBytes = (pid: number) => memoryBytes(pid, "VmRSS");
const peakBytes = (pid: number) => memoryBytes(pid, "VmHWM");
const resetPeak = (pid: number) => writeFile(`/proc/${pid}/clear_refs`, "5");
const toMib = (bytes: number) => Math.round((10 * bytes) / MIB) / 10;

interface AttackCost {
  readonly name: string;
  readonly status: number;
  readonly growthMib: number;
  readonly ms: number;
}

async function measureAttack(pid: number, url: string, attack: Attack): Promise<AttackCost> {
  await resetPeak(pid);
  const [startedMs, startBytes] = [performance.now(), await residentBytes(pid)];
  const status = await send(url, attack);
  return {
    name: attack.name,
    status,
    growthMib: toMib((await peakBytes(pid)) - startBytes),
    ms: Math.round(performance.now() - startedMs),
  };
}

const isMeasurable = existsSync(`/proc/${process.pid}/clear_refs`);

describe.skipIf(!isMeasurable)(
  "bodies that are too much (needs Linux, whose /proc tells a process's memory)",
  () => {
    let folder: string;
    const servers = new Map<
      "edge" | "region",
      { readonly url: string; readonly pid: number; stop(): Promise<void> }
    >();
    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), "edgetier-bodies-"));
      // Without a store, an accepted body is read completely and answered with 503.
      const store = {
        EDGETIER_S3_ENDPOINT: await getUnreachableUrl(),
        EDGETIER_S3_BUCKET: "b",
        EDGETIER_S3_ACCESS_KEY_ID: "k",
        EDGETIER_S3_SECRET_ACCESS_KEY: "s",
      };
      servers.set(
        "edge",
        await startWorkerdEdge(await bundleWorker(join(folder, "worker.bundle")), store),
      );
      servers.set(
        "region",
        await startListeningChild({
          name: "region",
          file: REGION_ENTRY,
          environment: { ...store, EDGETIER_REGION_PORT: "0" },
          onLine: () => {},
        }),
      );
    });
    afterAll(async () => {
      await Promise.all([...servers.values()].map((server) => server.stop()));
      await rm(folder, { recursive: true, force: true });
    });

    it.each(["edge", "region"] as const)("cost the %s little", async (name) => {
      const target = { edge: EDGE, region: REGION }[name];
      const server = servers.get(name);
      if (server === undefined) throw new Error(`no ${name}`);
      const url = `${server.url}${target.path}`;
      const ordinary = { headers: JSON_TYPE, chunks: () => [Buffer.from('{"inputs":"hello"}')] };
      const ordinaryStatus = await send(url, ordinary);
      for (let index = 0; index < 200; index++) await send(url, ordinary);
      const before = await residentBytes(server.pid);
      const rows: AttackCost[] = [];
      for (const attack of attacks(target)) rows.push(await measureAttack(server.pid, url, attack));
      const after = toMib((await residentBytes(server.pid)) - before);
      console.log(
        `${name}, ${toMib(before)} MiB before, ${after} more after:\n${rows.map((row) => `  ${Object.values(row).join(", ")}`).join("\n")}`,
      );
      expect(rows).toMatchObject(attacks(target).map(({ name, status }) => ({ name, status })));
      expect(Math.max(...rows.map(({ growthMib }) => growthMib))).toBeLessThan(MAX_GROWTH_MIB);
      expect(await send(url, ordinary)).toBe(ordinaryStatus);
    });
  },
);
