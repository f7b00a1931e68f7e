// A Worker of the toolchain's own, bundled and run in a workerd of its own, with the engine: a job in, an answer out.

import { processErrors } from "../../../core/process-errors.ts";
import { join } from "node:path";
import { build } from "esbuild";
import { convertV4MiniflareOptions, Log, LogLevel, Miniflare } from "miniflare";
import { EdgeTierError, reasonOf } from "../../../core/errors.ts";
import { encodeFrame, decodeFrame } from "./messages.ts";

export interface ToolchainWorkerOptions {
  /** For messages. */
  readonly name: string;
  /** The Worker's source. It may import "sandbox:glue.mjs", and what `modules` has, as in modules.d.ts. */
  readonly entry: string;
  /** Of `edgetier engine prepare`. */
  readonly engineFolder: string;
  /** WebAssembly by the name that it is imported by, after "sandbox:". */
  readonly modules: Readonly<Record<string, Uint8Array>>;
  readonly bindings: Readonly<Record<string, string>>;
}

export interface ToolchainWorker {
  /** @throws what the Worker has thrown, by its code */
  call<Answer>(
    job: object,
    binaries: readonly Uint8Array[],
  ): Promise<{ value: Answer; binaries: Uint8Array<ArrayBuffer>[] }>;
  close(): Promise<void>;
}

/** @throws component_failed if workerd does not take it */
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
    external: ["*.wasm", "module", "worker_threads"], // the glue's branches for Node, never taken
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
