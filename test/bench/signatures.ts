// Cost of verifying a manifest's signature during a cold start, in Node and in workerd. Both have computed a SHA-256 before,
// like every start.
// Run: node test/bench/signatures.ts [isolates]
import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { build } from "esbuild";
import { convertV4MiniflareOptions, Log, LogLevel, Miniflare } from "miniflare";
import { createProjectSnapshots } from "../../src/cli/build-deployment.ts";
import { MODELS_FOLDER, PROJECT_ROOT } from "../../src/cli/local/paths.ts";
import { createMemoryObjectStore } from "../../src/registry/drivers/memory.ts";
import { createModelStore } from "../../src/registry/object-model-store.ts";
import { publishModel } from "../../src/registry/publish.ts";
import { storeLayout } from "../../src/registry/store-layout.ts";
import { readProject } from "../../src/toolchain/project.ts";
import { createTestSigningKey } from "../support/test-signing-key.ts";
import { writeBenchReport, roundToFourDigits } from "./lib/report.ts";

const ISOLATES = Number(process.argv[2] ?? 30);
/** In one isolate: the first in cold code, later ones as a long-lived isolate meets them. */
const READS = 200;

const key = await createTestSigningKey();
const { source } = await createProjectSnapshots(
  await readProject(join(MODELS_FOLDER, "intent")),
  console.error,
);

async function manifestFile(isSigned: boolean): Promise<string> {
  const objects = createMemoryObjectStore();
  await publishModel(createModelStore(objects, isSigned ? { signingKeys: [key] } : {}), source);
  return await new Response((await objects.get(storeLayout.manifest("intent", 1)))?.body).text();
}

const files = { plain: await manifestFile(false), signed: await manifestFile(true) };
type ManifestKind = keyof typeof files;
const kinds = Object.keys(files) as ManifestKind[];

/** A store that holds the one manifest and reads it for every request. */
function readerSource(kind: ManifestKind): string {
  return `
    import { createModelStore } from "${PROJECT_ROOT}/src/registry/object-model-store.ts";
    const file = new TextEncoder().encode(${JSON.stringify(files[kind])});
    const trustedKeys = ${kind === "signed" ? `[new Uint8Array(${JSON.stringify([...key.publicKey])})]` : "undefined"};
    const objects = { get: async () => ({ body: new Blob([file]).stream(), size: file.byteLength, etag: "", modifiedAtMs: 0 }) };
    const store = createModelStore(objects, { trustedKeys });
    export async function read(count) { let tiers = 0; if (count === 0) await crypto.subtle.digest("SHA-256", file); for (let index = 0; index < count; index++) tiers += (await store.readManifest("intent", 1)).tiers.length; return tiers; }`;
}

async function bundle(contents: string): Promise<string> {
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: PROJECT_ROOT, loader: "ts" },
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

interface Times {
  readonly firstMs: number;
  /** Mean time of the following verifications. */
  readonly laterMs: number;
}

/** workerd's clock pauses during computation. Times are the client's, minus those of a request that reads nothing. */
async function measureInWorkerd(script: string): Promise<Times> {
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
  const url = await miniflare.ready;
  const ask = async (count: number) => {
    const startedAtMs = performance.now();
    const response = await fetch(new URL(`/?${count}`, url));
    if (!response.ok) throw new Error(await response.text());
    await response.text();
    return performance.now() - startedAtMs;
  };
  await ask(0); // connection, and code that is no reader's
  const nothingMs = await ask(0);
  const firstMs = (await ask(1)) - nothingMs;
  await ask(READS);
  const laterMs = ((await ask(READS)) - nothingMs) / READS;
  await miniflare.dispose();
  return { firstMs, laterMs };
}

/** In a process of its own. */
async function measureInNode(script: string): Promise<Times> {
  const code = `${script}; const t = async (n) => { const s = performance.now(); await read(n); return performance.now() - s; };
    await t(0); const firstMs = await t(1); await t(${READS}); console.log(JSON.stringify({ firstMs, laterMs: (await t(${READS})) / ${READS} }));`;
  const folder = await mkdtemp(join(tmpdir(), "edgetier-signatures-"));
  try {
    await writeFile(join(folder, "main.mjs"), code);
    const { stdout } = await promisify(execFile)(process.execPath, [join(folder, "main.mjs")]);
    return JSON.parse(stdout);
  } finally {
    await rm(folder, { recursive: true });
  }
}

const quantile = (values: readonly number[], q: number): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length * q)] ?? Number.NaN;

const runtimes = {
  node: {
    measure: measureInNode,
    script: (kind: ManifestKind) =>
      bundle(readerSource(kind).replace("export async", "globalThis.read = read; async")),
  },
  workerd: {
    measure: measureInWorkerd,
    script: (kind: ManifestKind) =>
      bundle(
        `${readerSource(kind)} export default { fetch: async (request) => new Response(String(await read(Number(new URL(request.url).search.slice(1))))) };`,
      ),
  },
};

const rows: Parameters<typeof writeBenchReport>[0]["rows"][number][] = [];
const figures: Record<string, number> = {};
for (const [runtime, { measure, script }] of Object.entries(runtimes)) {
  const scripts = new Map<ManifestKind, string>();
  for (const kind of kinds) scripts.set(kind, await script(kind));
  const taken = new Map<ManifestKind, Times[]>(kinds.map((kind) => [kind, []]));
  for (let round = 0; round < ISOLATES; round++) {
    // Alternating, so that what else the machine does weighs on both alike.
    for (const kind of round % 2 === 0 ? kinds : kinds.toReversed())
      taken.get(kind)?.push(await measure(scripts.get(kind) ?? ""));
  }
  const at = (kind: ManifestKind, time: keyof Times, q = 0.5) =>
    roundToFourDigits(
      quantile(
        (taken.get(kind) ?? []).map((one) => one[time]),
        q,
      ),
    );
  for (const kind of kinds) {
    rows.push({
      case: `${runtime}, ${kind}`,
      n: ISOLATES,
      fileBytes: files[kind].length,
      firstReadP10Ms: at(kind, "firstMs", 0.1), // least disturbed by what else the machine does
      firstReadP50Ms: at(kind, "firstMs"),
      laterReadP10Ms: at(kind, "laterMs", 0.1),
      laterReadP50Ms: at(kind, "laterMs"),
    });
  }
  figures[`${runtime}.firstReadCostMs`] = roundToFourDigits(
    at("signed", "firstMs") - at("plain", "firstMs"),
  );
  figures[`${runtime}.laterReadCostMs`] = roundToFourDigits(
    at("signed", "laterMs") - at("plain", "laterMs"),
  );
}
await writeBenchReport({
  name: "signatures",
  seed: 0,
  n: ISOLATES,
  packages: ["workerd"],
  rows,
  figures,
});
