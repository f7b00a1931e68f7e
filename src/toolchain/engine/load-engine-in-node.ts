// The Worker's full engine, to be run in Node: the same WebAssembly, in the same kind of V8.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { EngineModule } from "../../runtime/wasm/engine.ts";
import type { GlueFactory } from "../../runtime/wasm/ort-glue.ts";

/** @param engineFolder of `edgetier engine prepare` @param source SHA-256 of the full engine */
export async function loadEngineInNode(
  engineFolder: string,
  source: string,
): Promise<EngineModule> {
  const { default: glue }: { default: GlueFactory } = await import(
    pathToFileURL(join(engineFolder, "glue.mjs")).href
  );
  return {
    kind: "full",
    source,
    glue,
    wasm: await WebAssembly.compile(await readFile(join(engineFolder, "engine.wasm"))),
  };
}
