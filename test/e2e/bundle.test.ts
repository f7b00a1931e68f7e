// The Worker that `npx wrangler deploy` would upload: it builds, and stays under its ceilings of bytes and start-up time.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { measureStartup } from "../../src/cli/doctor/measure-startup.ts";
import { measureUpload } from "../../src/cli/doctor/measure-upload.ts";
import { bundleWorker, type WorkerUpload } from "../../src/cli/local/upload.ts";

/*
 * Ceilings. Raise one only with a reason, because cold starts pay for every byte. Bytes of the script by subject:
 * - images: 12,000 to read and prepare them; their decoders come only with a model that takes images;
 * - embeddings, stages and drift checks: 20,000;
 * - access: 30,000;
 * - regions with hedging, breakers and signatures: 18,000;
 * - cache policy: 8,000;
 * - metrics: 15,000; traces and access records: 8,700; reports of versions: 2,500.
 */
/** `import { z } from "zod"`, in place of `import * as z`, would add 270,000 bytes of messages in all languages. */
const MAX_SCRIPT_BYTES = 526_000;
const MAX_SCRIPT_GZIP_BYTES = 172_000;
const MAX_ENGINE_GZIP_BYTES = 150_000;
const MAX_IMAGE_DECODERS_GZIP_BYTES = 140_000;
const MAX_UPLOAD_BYTES = 16 * 1024 * 1024; // two models' snapshots take 12 MiB of it; the platform's limit is 64 MiB
const MAX_STARTUP_CPU_MS = 400; // the platform's limit is 1,000

describe("the Worker's bundle", () => {
  let folder: string;
  let file: string;
  let upload: WorkerUpload;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "edgetier-bundle-"));
    file = join(folder, "worker.bundle");
    upload = await bundleWorker(file);
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  it("holds one script, one engine, its data, and once what decodes images if it has to, within their bytes", () => {
    const kinds = upload.modules.map(({ kind }) => kind);
    expect(upload.modules[0]).toMatchObject({ name: "main.js", kind: "script" });
    expect(kinds.filter((kind) => kind === "script")).toHaveLength(1);
    const { script, engine, imageDecoders, data, totalBytes } = measureUpload(upload);
    expect(kinds.filter((kind) => kind === "wasm")).toHaveLength(
      imageDecoders === undefined ? 1 : 3,
    );
    const decoders = imageDecoders ?? { bytes: 0, gzipBytes: 0 };
    console.log(
      `script ${script.bytes} bytes (${script.gzipBytes} gzip), engine ${engine.bytes} (${engine.gzipBytes} gzip), image decoders ${decoders.bytes} (${decoders.gzipBytes} gzip), data ${data.bytes}, upload ${totalBytes}`,
    );
    expect(script.bytes).toBeLessThan(MAX_SCRIPT_BYTES);
    expect(script.gzipBytes).toBeLessThan(MAX_SCRIPT_GZIP_BYTES);
    expect(engine.gzipBytes).toBeLessThanOrEqual(MAX_ENGINE_GZIP_BYTES);
    expect(decoders.gzipBytes).toBeLessThanOrEqual(MAX_IMAGE_DECODERS_GZIP_BYTES);
    expect(totalBytes).toBe(script.bytes + engine.bytes + decoders.bytes + data.bytes);
    expect(totalBytes).toBeLessThan(MAX_UPLOAD_BYTES);
  });

  it("holds none of the Node-only clients", () => {
    const script = new TextDecoder().decode(upload.modules[0]?.bytes);
    expect(script).not.toContain("onnxruntime_binding"); // what onnxruntime-node loads
    expect(script).not.toContain("@aws-sdk");
  });

  it("starts within its CPU time", async () => {
    const cpuMs = await measureStartup(file);
    console.log(`start-up ${Math.round(cpuMs)} ms CPU`);
    expect(cpuMs).toBeGreaterThan(0);
    expect(cpuMs).toBeLessThan(MAX_STARTUP_CPU_MS);
  });
});
