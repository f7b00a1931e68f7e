// Loads the Worker's full engine in Node, which runs the same WebAssembly in V8 as workerd does.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { EngineModule } from "../../runtime/wasm/engine.ts";
import type { GlueFactory } from "../../runtime/wasm/ort-glue.ts";

/** @param engineFolder output of `edgetier engine prepare` @param source SHA-256 of the full engine */
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
