// Runs the workshop: worker.ts, bundled, in a workerd of its own, with the full engine and one that is made of it.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { build } from "esbuild";
import { convertV4MiniflareOptions, Log, LogLevel, Miniflare } from "miniflare";
import { EdgeTierError, errors, reasonOf } from "../../../core/errors.ts";
import type { NamedTensors } from "../../../core/tensor.ts";
import type { EncodedSnapshot, HeadRef } from "../../../runtime/wasm/snapshot-format.ts";
import { type JobWithoutInputs, pack, packTensors, type Profile, unpack, type Validation } from "./messages.ts";

export interface WorkshopOptions {
  /** Of `edgetier engine prepare`. */
  readonly engineFolder: string;
  /** SHA-256 of the full engine. */
  readonly source: string;
  /** An instrumented engine for `profile`, a cut one for `validate`. */
  readonly other: Uint8Array;
}

export interface Workshop {
  /** Uncompressed. @throws session_failed, not_deterministic */
  takeSnapshot(model: Uint8Array, modelSha256: string, warmUp: readonly NamedTensors[]): Promise<EncodedSnapshot>;
  profile(snapshot: EncodedSnapshot, modelSha256: string, inputs: readonly NamedTensors[]): Promise<Profile>;
  validate(snapshot: EncodedSnapshot, model: Uint8Array, modelSha256: string, inputs: readonly NamedTensors[]): Promise<Validation>;
  close(): Promise<void>;
}

/** @throws component_failed if workerd does not take the engine */
export async function openWorkshop({ engineFolder, source, other }: WorkshopOptions): Promise<Workshop> {
  const full = await readFile(join(engineFolder, "engine.wasm"));
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({
      modules: [
        { type: "ESModule", path: "worker.mjs", contents: await bundleWorker(engineFolder) },
        { type: "CompiledWasm", path: "full.wasm", contents: full },
        { type: "CompiledWasm", path: "other.wasm", contents: other },
      ],
      bindings: { SOURCE: source },
      compatibilityDate: "2026-10-01",
      compatibilityFlags: ["no_nodejs_compat"], // as in wrangler.toml
      log: new Log(LogLevel.NONE),
      handleRuntimeStdio: () => {},
      cf: false,
    }),
  );

  async function ask<Answer>(job: JobWithoutInputs, binaries: Uint8Array[], inputs: readonly NamedTensors[]): Promise<{ value: Answer; binaries: Uint8Array<ArrayBuffer>[] }> {
    const all = [...binaries];
    const packed = packTensors(inputs, all);
    const response = await miniflare.dispatchFetch("http://workshop/", { method: "POST", body: pack({ ...job, inputs: packed }, all) });
    if (response.ok) return unpack<Answer>(await response.arrayBuffer());
    throw new EdgeTierError((await response.json()) as ConstructorParameters<typeof EdgeTierError>[0]);
  }

  try {
    await miniflare.ready;
  } catch (error) {
    await miniflare.dispose().catch(() => {});
    throw errors.componentFailed("engine workshop", reasonOf(error), error);
  }
  return {
    async takeSnapshot(model, modelSha256, warmUp) {
      const { value: head, binaries } = await ask<HeadRef>({ kind: "snapshot", modelSha256 }, [model], warmUp);
      return { head, bytes: binaries[0] ?? new Uint8Array() };
    },
    async profile({ bytes, head }, modelSha256, inputs) {
      return (await ask<Profile>({ kind: "profile", modelSha256, head }, [bytes], inputs)).value;
    },
    async validate({ bytes, head }, model, modelSha256, inputs) {
      return (await ask<Validation>({ kind: "validate", modelSha256, head }, [bytes, model], inputs)).value;
    },
    close: () => miniflare.dispose(),
  };
}

async function bundleWorker(engineFolder: string): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [join(import.meta.dirname, "worker.ts")],
    bundle: true,
    write: false,
    format: "esm",
    target: "es2024",
    external: ["*.wasm", "module", "worker_threads"], // the glue's branches for Node, never taken
    plugins: [
      {
        name: "workshop",
        setup(bundler) {
          bundler.onResolve({ filter: /^workshop:/ }, ({ path }) => {
            const name = path.slice("workshop:".length);
            return name.endsWith(".wasm") ? { path: `./${name}`, external: true } : { path: join(engineFolder, name) };
          });
        },
      },
    ],
  });
  return outputFiles[0]?.text ?? "";
}
