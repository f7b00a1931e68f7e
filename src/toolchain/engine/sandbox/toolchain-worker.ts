// Toolchain Worker: bundles a Worker with the engine, runs it in its own workerd, and calls it with jobs.

import { join } from "node:path";
import { build } from "esbuild";
import { convertV4MiniflareOptions, Log, LogLevel, Miniflare } from "miniflare";
import { EdgeTierError, reasonOf } from "../../../core/errors.ts";
import { processErrors } from "../../../core/process-errors.ts";
import { encodeFrame, decodeFrame } from "./messages.ts";

export interface ToolchainWorkerOptions {
  /** Name in error messages. */
  readonly name: string;
  /** The Worker's source file. It may import "sandbox:glue.mjs" and the keys of `modules`, as in modules.d.ts. */
  readonly entry: string;
  /** Output folder of `edgetier engine prepare`. */
  readonly engineFolder: string;
  /** WebAssembly by its import name without the prefix "sandbox:". */
  readonly modules: Readonly<Record<string, Uint8Array>>;
  readonly bindings: Readonly<Record<string, string>>;
}

export interface ToolchainWorker {
  /** @throws EdgeTierError with the code of the error that the Worker has thrown */
  call<Result>(
    job: object,
    binaries: readonly Uint8Array[],
  ): Promise<{ value: Result; binaries: Uint8Array<ArrayBuffer>[] }>;
  close(): Promise<void>;
}

/** @throws component_failed if workerd rejects the Worker */
export async function startToolchainWorker({
  name,
  entry,
  engineFolder,
  modules,
  bindings,
}: ToolchainWorkerOptions): Promise<ToolchainWorker> {
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({
      modules: [
        {
          type: "ESModule",
          path: "worker.mjs",
          contents: await bundleWorkerSource(entry, engineFolder),
        },
        ...Object.entries(modules).map(([path, contents]) => ({
          type: "CompiledWasm" as const,
          path,
          contents: new Uint8Array(contents),
        })),
      ],
      bindings,
      compatibilityDate: "2026-10-01",
      compatibilityFlags: ["no_nodejs_compat"], // as in wrangler.toml
      log: new Log(LogLevel.NONE),
      handleRuntimeStdio: () => {},
      cf: false,
    }),
  );
  try {
    await miniflare.ready;
  } catch (error) {
    await miniflare.dispose().catch(() => {});
    throw processErrors.componentFailed(name, reasonOf(error), error);
  }
  return {
    async call(job, binaries) {
      const response = await miniflare.dispatchFetch("http://tool/", {
        method: "POST",
        body: encodeFrame(job, binaries),
      });
      if (response.ok) return decodeFrame(await response.arrayBuffer());
      throw new EdgeTierError(
        (await response.json()) as ConstructorParameters<typeof EdgeTierError>[0],
      );
    },
    close: () => miniflare.dispose(),
  };
}

async function bundleWorkerSource(entry: string, engineFolder: string): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [entry],
    bundle: true,
    write: false,
    format: "esm",
    target: "es2024",
    // The glue imports the Node modules only in branches that are never taken.
    external: ["*.wasm", "module", "worker_threads"],
    plugins: [
      {
        name: "sandbox",
        setup(bundler) {
          bundler.onResolve({ filter: /^sandbox:/ }, ({ path }) => {
            const name = path.slice("sandbox:".length);
            return name.endsWith(".wasm")
              ? { path: `./${name}`, external: true }
              : { path: join(engineFolder, name) };
          });
        },
      },
    ],
  });
  return outputFiles[0]?.text ?? "";
}
