// Compares S3 clients for the edge: bundle size, and the time added to a cold start in workerd.
// Run: node test/bench/s3-client.ts [pairs]
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { convertV4MiniflareOptions, Log, LogLevel, Miniflare } from "miniflare";
import { writeBenchReport, roundToFourDigits } from "./lib/report.ts";

const PAIRS = Number(process.argv[2] ?? 15);
const ROOT = join(import.meta.dirname, "../..");
const options =
  '{ endpoint: "http://127.0.0.1:1", bucket: "b", region: "auto", accessKeyId: "a", secretAccessKey: "s" }';

/** Each module makes its client at module scope, as the edge does with its first request, and answers. */
const workers = {
  "empty Worker": "const store = undefined;",
  aws4fetch: `import { createS3FetchObjectStore } from "${ROOT}/src/registry/drivers/s3-fetch.ts"; const store = createS3FetchObjectStore(${options});`,
  "@aws-sdk/client-s3": `import { createS3ObjectStore } from "${ROOT}/src/registry/drivers/s3.ts"; const store = createS3ObjectStore(${options});`,
};
type Client = keyof typeof workers;
const clients = Object.keys(workers) as Client[];

async function bundle(client: Client): Promise<string> {
  const { outputFiles } = await build({
    stdin: {
      contents: `${workers[client]} export default { fetch: () => new Response(String(typeof store)) };`,
      resolveDir: ROOT,
      loader: "ts",
    },
    bundle: true,
    minify: true,
    write: false,
    format: "esm",
    platform: "browser",
    target: "es2024",
    logLevel: "error",
  });
  return outputFiles[0]?.text ?? "";
}

/** Measures from the start of a new workerd to its first answer: process, module startup and one request. */
async function measureColdStartMs(script: string): Promise<number> {
  const startedAtMs = performance.now();
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({
      modules: true,
      script,
      compatibilityDate: "2026-10-01",
      compatibilityFlags: ["no_nodejs_compat"],
      cf: false,
      log: new Log(LogLevel.ERROR),
    }),
  );
  const response = await fetch(await miniflare.ready);
  if (!response.ok) throw new Error(await response.text());
  await response.text();
  const elapsedMs = performance.now() - startedAtMs;
  await miniflare.dispose();
  return elapsedMs;
}

const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;

const scripts = new Map<Client, string>();
for (const client of clients) scripts.set(client, await bundle(client));
const timesMs = new Map<Client, number[]>(clients.map((client) => [client, []]));
for (let pair = -1; pair < PAIRS; pair++) {
  // Clients alternate, so that other load on the machine affects all alike. The first round only warms the disk cache.
  for (const client of pair % 2 === 0 ? clients : clients.toReversed()) {
    const elapsedMs = await measureColdStartMs(scripts.get(client) ?? "");
    if (pair >= 0) timesMs.get(client)?.push(elapsedMs);
  }
}

const emptyMs = timesMs.get("empty Worker") ?? [];
const rows = clients.map((client) => {
  const script = scripts.get(client) ?? "";
  const own = timesMs.get(client) ?? [];
  return {
    case: client,
    bundleBytes: Buffer.byteLength(script),
    bundleGzipBytes: gzipSync(script, { level: 9 }).byteLength,
    coldStartP50Ms: roundToFourDigits(median(own)),
    addedOverEmptyP50Ms: roundToFourDigits(
      median(own.map((ms, pair) => ms - (emptyMs[pair] ?? Number.NaN))),
    ),
  };
});

const bytes = (client: Client) =>
  rows.find((row) => row.case === client)?.bundleBytes ?? Number.NaN;
await writeBenchReport({
  name: "s3-client",
  seed: 0, // this benchmark uses no randomness
  n: PAIRS,
  packages: ["@aws-sdk/client-s3", "aws4fetch", "workerd"],
  rows,
  figures: {
    awsSdkVsAws4fetchBundleRatio: roundToFourDigits(
      bytes("@aws-sdk/client-s3") / bytes("aws4fetch"),
    ),
  },
});
