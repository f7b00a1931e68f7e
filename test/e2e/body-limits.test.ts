// Bodies made to exhaust memory, sent to the Worker in workerd and to the region's server, as processes: each is refused while it
// comes in, and what the process takes for it stays small.
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { existsSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startBareEdge } from "../../src/cli/local/bare-edge.ts";
import { startListeningChild } from "../../src/cli/local/listening.ts";
import { REGION_ENTRY } from "../../src/cli/local/paths.ts";
import { bundleWorker } from "../../src/cli/local/upload.ts";
import { refusingUrl } from "../support/tiny-server.ts";

const MIB = 1_048_576;
const MAX_GROWTH_BYTES = 32 * MIB;
/** As `node` and workerd are started here, with nothing changed. */
const EDGE_LIMIT = 262_144;
const REGION_LIMIT = 8_388_608;
const EDGE = { path: "/v1/models/intent/predict", limit: EDGE_LIMIT };
const REGION = { path: "/v2/models/intent/infer", limit: REGION_LIMIT };
const JSON_TYPE = { "content-type": "application/json" };
const GZIP = { ...JSON_TYPE, "content-encoding": "gzip" };

const bomb = gzipSync(Buffer.alloc(100 * MIB));
const spaces = (bytes: number) => Buffer.alloc(bytes, 0x20);
const repeated = function* (chunk: Uint8Array, count: number) {
  for (let index = 0; index < count; index++) yield chunk;
};

interface Attack {
  readonly what: string;
  readonly headers: Record<string, string>;
  readonly chunks: () => Iterable<Uint8Array>;
  /** The length is told beforehand. */
  readonly bytes?: number;
  readonly status: number;
}

const attacks = (limit: number): Attack[] => [
  { what: "100 kB of gzip that are 100 MB", headers: GZIP, chunks: () => [bomb], bytes: bomb.byteLength, status: 413 },
  { what: "the same in pieces", headers: GZIP, chunks: () => pieces(bomb, 1_000), status: 413 },
  { what: "65,537 chunks of a byte", headers: JSON_TYPE, chunks: () => repeated(spaces(1), 65_537), status: 400 },
  { what: "chunks without an end", headers: JSON_TYPE, chunks: () => repeated(spaces(16_384), Infinity), status: 413 },
  { what: "a length that is a byte too much", headers: JSON_TYPE, chunks: () => [spaces(limit + 1)], bytes: limit + 1, status: 413 },
  { what: "gzip that is a byte too much", headers: GZIP, chunks: () => [gzipSync(spaces(limit + 1))], status: 413 },
  { what: "JSON 120 deep", headers: JSON_TYPE, chunks: () => [Buffer.from("[".repeat(120) + "]".repeat(120))], status: 400 },
  { what: "JSON 125,000 deep, closed", headers: JSON_TYPE, chunks: () => [Buffer.from("[".repeat(125_000) + "]".repeat(125_000))], status: 400 },
  { what: "JSON 250,000 deep", headers: JSON_TYPE, chunks: () => [Buffer.from("[".repeat(250_000))], status: 400 },
];

function* pieces(bytes: Uint8Array, size: number) {
  for (let at = 0; at < bytes.byteLength; at += size) yield bytes.subarray(at, at + size);
}

/** @returns the status; a server may close the connection on what it does not want to read */
async function send(url: string, { headers, chunks, bytes }: Pick<Attack, "headers" | "chunks" | "bytes">): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const length = bytes === undefined ? { "transfer-encoding": "chunked" } : { "content-length": String(bytes) };
  const sending = request(url, { method: "POST", headers: { ...headers, ...length, connection: "close" } });
  let isOver = false;
  sending.on("response", (response) => {
    isOver = true;
    resolve(response.statusCode ?? 0);
    response.resume();
  });
  sending.on("error", (error) => {
    isOver = true;
    reject(error); // nothing, where there was an answer
  });
  for (const chunk of chunks()) {
    if (isOver) break;
    if (!sending.write(chunk)) await Promise.race([new Promise((drained) => sending.once("drain", drained)), promise.catch(() => {})]);
  }
  sending.end();
  const status = await promise;
  sending.destroy();
  return status;
}

/** The most memory that the process had since the last look, as the kernel counts it. */
async function peakBytes(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  await writeFile(`/proc/${pid}/clear_refs`, "5");
  return Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1]) * 1_024;
}
const residentBytes = async (pid: number) => Number(/VmRSS:\s+(\d+) kB/.exec(await readFile(`/proc/${pid}/status`, "utf8"))?.[1]) * 1_024;

const isMeasurable = existsSync(`/proc/${process.pid}/clear_refs`);

describe.skipIf(!isMeasurable)("bodies that are too much (needs Linux, whose /proc tells a process's memory)", () => {
  let folder: string;
  const servers = new Map<"edge" | "region", { readonly url: string; readonly pid: number; stop(): Promise<void> }>();
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "edgetier-bodies-"));
    // No store: what is taken is answered with 503, once it has been read.
    const store = { EDGETIER_S3_ENDPOINT: await refusingUrl(), EDGETIER_S3_BUCKET: "b", EDGETIER_S3_ACCESS_KEY_ID: "k", EDGETIER_S3_SECRET_ACCESS_KEY: "s" };
    servers.set("edge", await startBareEdge(await bundleWorker(join(folder, "worker.bundle")), store));
    servers.set("region", await startListeningChild({ name: "region", file: REGION_ENTRY, environment: { ...store, EDGETIER_REGION_PORT: "0" }, onLine: () => {} }));
  });
  afterAll(async () => {
    await Promise.all([...servers.values()].map((server) => server.stop()));
    await rm(folder, { recursive: true, force: true });
  });

  it.each(["edge", "region"] as const)("cost the %s little", async (name) => {
    const { path, limit } = { edge: EDGE, region: REGION }[name];
    const server = servers.get(name);
    if (server === undefined) throw new Error(`no ${name}`);
    const url = `${server.url}${path}`;
    const ordinary = { headers: JSON_TYPE, chunks: () => [Buffer.from('{"inputs":"hello"}')] };
    const ordinaryStatus = await send(url, ordinary);
    for (let index = 0; index < 200; index++) await send(url, ordinary);
    const before = await residentBytes(server.pid);
    await peakBytes(server.pid);
    const rows: [what: string, status: number, growthMib: number, ms: number][] = [];
    for (const attack of attacks(limit)) {
      const startedMs = performance.now();
      const status = await send(url, attack);
      rows.push([attack.what, status, Math.round((10 * ((await peakBytes(server.pid)) - before)) / MIB) / 10, Math.round(performance.now() - startedMs)]);
    }
    console.log(`${name}, ${Math.round(before / MIB)} MiB before:\n${rows.map((row) => `  ${row.join(", ")}`).join("\n")}`);
    expect(rows.map(([what, status]) => [what, status])).toEqual(attacks(limit).map(({ what, status }) => [what, status]));
    expect(Math.max(...rows.map(([, , growthMib]) => growthMib)) * MIB).toBeLessThan(MAX_GROWTH_BYTES);
    expect(await send(url, ordinary)).toBe(ordinaryStatus);
  });
});
