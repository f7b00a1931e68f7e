// Prepares the full engine from onnxruntime-web: the WebAssembly with a non-shared memory, and glue that runs in workerd.
// The result lies under dist/engine and is rebuilt when its sources change.

import { mkdir, readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { transform } from "esbuild";
import * as z from "zod";
import { reasonOf } from "../../core/errors.ts";
import { processErrors } from "../../core/process-errors.ts";
import { sha256HexSync } from "../sha256-sync.ts";
import { encodeWasmModule, parseWasmModule } from "./wasm-module.ts";

/** Raise it if a change of this code gives another engine for the same sources. */
const RECIPE_VERSION = 5;
const SOURCE_WASM = "onnxruntime-web/ort-wasm-simd-threaded.wasm";
const SOURCE_GLUE = "onnxruntime-web/ort-wasm-simd-threaded.mjs";

const engineInfoSchema = z.object({
  recipe: z.number(),
  sourceSha256: z.string(),
  sha256: z.string(),
  bytes: z.number(),
  gzipBytes: z.number(),
});

export interface PreparedEngine {
  /** Size of engine.wasm. */
  readonly bytes: number;
  readonly gzipBytes: number;
  /** SHA-256 of engine.wasm. */
  readonly sha256: string;
  /** Whether an up-to-date engine was there already. */
  readonly cached: boolean;
}

/**
 * Writes engine.wasm, glue.mjs and engine.json into `outDir`.
 * @throws component_failed if onnxruntime-web has another structure than this code expects
 */
export async function prepareEngine(options: {
  outDir: string;
  log?: (line: string) => void;
}): Promise<PreparedEngine> {
  const require = createRequire(import.meta.url);
  const [wasm, glue] = await Promise.all([
    readFile(require.resolve(SOURCE_WASM)),
    readFile(require.resolve(SOURCE_GLUE), "utf8"),
  ]);
  const sourceSha256 = sha256HexSync(wasm, glue);

  const existing = await readEngineInfo(options.outDir);
  if (existing?.recipe === RECIPE_VERSION && existing.sourceSha256 === sourceSha256) {
    const { bytes, gzipBytes, sha256 } = existing;
    return { bytes, gzipBytes, sha256, cached: true };
  }

  options.log?.("preparing the engine from onnxruntime-web");
  try {
    const engine = unshareMemory(wasm);
    const sha256 = sha256HexSync(engine);
    await mkdir(options.outDir, { recursive: true });
    await writeFile(join(options.outDir, "engine.wasm"), engine);
    await writeFile(join(options.outDir, "glue.mjs"), await adaptGlue(glue));
    const info = {
      recipe: RECIPE_VERSION,
      sourceSha256,
      sha256,
      bytes: engine.byteLength,
      gzipBytes: gzipSync(engine, { level: 9 }).byteLength,
    };
    await writeFile(join(options.outDir, "engine.json"), `${JSON.stringify(info, undefined, 1)}\n`);
    return { bytes: info.bytes, gzipBytes: info.gzipBytes, sha256, cached: false };
  } catch (error) {
    throw processErrors.componentFailed(
      "engine build",
      `onnxruntime-web has an unexpected structure: ${reasonOf(error)}`,
      error,
    );
  }
}

/**
 * Makes the memory non-shared, because workerd has no threads. Lowers its initial size, because a restored snapshot's
 * memory may be smaller than the package's minimum.
 */
function unshareMemory(wasm: Uint8Array): Uint8Array {
  const module = parseWasmModule(wasm);
  if (!module.memory.isShared) throw new Error("the imported memory is not shared");
  return encodeWasmModule({
    ...module,
    memory: { ...module.memory, isShared: false, initialPages: 1 },
  });
}

/**
 * Adapts the glue to workerd in five ways:
 * - It never detects Node.
 * - It takes the memory from its caller instead of creating a shared one.
 * - It does not wait on atomics, which throws on a non-shared memory.
 * - It reads the time from its caller, so that a snapshot contains no real time.
 * - It passes ONNX Runtime's output to its caller.
 */
async function adaptGlue(glue: string): Promise<string> {
  const sharedMemory = "new WebAssembly.Memory({initial:256,maximum:65536,shared:!0})";
  if (glue.split(sharedMemory).length !== 2)
    throw new Error("the glue does not create its memory with the expected expression");
  const { code } = await transform(glue.replace(sharedMemory, "moduleArg.wasmMemory"), {
    format: "esm",
    target: "es2022",
    minify: true,
    define: {
      "globalThis.process": "undefined",
      "Atomics.waitAsync": "undefined",
      "Date.now": "moduleArg.now",
      "performance.now": "moduleArg.now",
      "performance.timeOrigin": "0",
      "console.log": "moduleArg.print",
      "console.error": "moduleArg.printErr",
    },
  });
  return code;
}

async function readEngineInfo(
  outDir: string,
): Promise<z.output<typeof engineInfoSchema> | undefined> {
  try {
    return engineInfoSchema.parse(JSON.parse(await readFile(join(outDir, "engine.json"), "utf8")));
  } catch {
    return undefined;
  }
}
