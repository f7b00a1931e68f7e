// The Worker that `npx wrangler deploy` would upload: it builds, and stays under its ceilings of bytes and start-up time.
import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { PROJECT_ROOT } from "../../src/cli/local/paths.ts";

/** Ceilings. Raise one only with a reason: cold starts pay for every byte. */
const MAX_SCRIPT_BYTES = 800_000;
const MAX_SCRIPT_GZIP_BYTES = 200_000;
const MAX_UPLOAD_BYTES = 16 * 1024 * 1024; // the platform's limit is 64 MiB
const MAX_STARTUP_CPU_MS = 400; // the platform's limit is 1,000

const run = promisify(execFile);
const wrangler = (...args: string[]) =>
  run(process.execPath, [join(PROJECT_ROOT, "node_modules/wrangler/bin/wrangler.js"), ...args], {
    cwd: PROJECT_ROOT,
    env: { ...process.env, WRANGLER_SEND_METRICS: "false", CLOUDFLARE_CF_FETCH_ENABLED: "false" },
  });

describe("the Worker's bundle", () => {
  let folder: string;
  let files: Map<string, Buffer>;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "edgetier-bundle-"));
    await wrangler("deploy", "--dry-run", "--outdir", folder);
    const names = (await readdir(folder)).filter((name) => name.endsWith(".js") || name.endsWith(".wasm"));
    files = new Map(await Promise.all(names.map(async (name) => [name, await readFile(join(folder, name))] as const)));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  it("holds one script and one engine, within their bytes", () => {
    const scripts = [...files].filter(([name]) => name.endsWith(".js"));
    expect(scripts.map(([name]) => name)).toEqual(["main.js"]);
    expect(files.size).toBe(2);
    const script = files.get("main.js") ?? Buffer.alloc(0);
    const uploadBytes = [...files.values()].reduce((sum, bytes) => sum + bytes.byteLength, 0);
    console.log(`script ${script.byteLength} bytes (${gzipSync(script).byteLength} gzip), upload ${uploadBytes} bytes`);
    expect(script.byteLength).toBeLessThan(MAX_SCRIPT_BYTES);
    expect(gzipSync(script).byteLength).toBeLessThan(MAX_SCRIPT_GZIP_BYTES);
    expect(uploadBytes).toBeLessThan(MAX_UPLOAD_BYTES);
  });

  it("holds none of the Node-only clients", () => {
    const script = files.get("main.js")?.toString("utf8") ?? "";
    expect(script).not.toContain("onnxruntime-node");
    expect(script).not.toContain("@aws-sdk");
  });

  it("starts within its CPU time", async () => {
    const file = join(folder, "startup.cpuprofile");
    await wrangler("check", "startup", "--outfile", file);
    const cpuMs = busyMs(JSON.parse(await readFile(file, "utf8")));
    console.log(`start-up ${Math.round(cpuMs)} ms CPU`);
    expect(cpuMs).toBeGreaterThan(0);
    expect(cpuMs).toBeLessThan(MAX_STARTUP_CPU_MS);
  });
});

interface CpuProfile {
  readonly nodes: readonly { readonly id: number; readonly callFrame: { readonly functionName: string } }[];
  readonly samples: readonly number[];
  /** Microseconds. */
  readonly timeDeltas: readonly number[];
}

/** Time in which the script's thread did anything. */
function busyMs({ nodes, samples, timeDeltas }: CpuProfile): number {
  const idle = new Set(nodes.filter(({ callFrame }) => callFrame.functionName === "(idle)").map(({ id }) => id));
  return samples.reduce((sum, node, index) => sum + (idle.has(node) ? 0 : (timeDeltas[index] ?? 0) / 1000), 0);
}
