// The Worker that `wrangler deploy` would upload, in workerd alone: without the development server, whose proxy in front
// of the Worker costs more than the Worker does.
import { execFile } from "node:child_process";
import { readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { promisify } from "node:util";
import { startChild } from "../../../src/cli/local/child.ts";
import { PROJECT_ROOT, WRANGLER_CONFIG } from "../../../src/cli/local/paths.ts";
import { findFreePort } from "../../../src/cli/local/ports.ts";

const ENTRY = "functions/edge/main.ts";
const READY_WITHIN_MS = 30_000;

/** Bundles with wrangler.toml, with another entry in place of the project's. */
export async function bundleWorker(outFolder: string, entry = ENTRY): Promise<void> {
  const config = join(PROJECT_ROOT, `.bench-${process.pid}.wrangler.toml`); // beside the real one: its paths are relative
  await writeFile(config, (await readFile(WRANGLER_CONFIG, "utf8")).replace(ENTRY, entry));
  try {
    const wrangler = join(PROJECT_ROOT, "node_modules/wrangler/bin/wrangler.js");
    await promisify(execFile)(process.execPath, [wrangler, "deploy", "--dry-run", "--config", config, "--outdir", outFolder], { cwd: PROJECT_ROOT });
  } finally {
    await rm(config);
  }
}

export interface BareEdge {
  readonly url: string;
  stop(): Promise<void>;
}

/** @param folder that `bundleWorker` wrote */
export async function startBareEdge(folder: string, variables: Readonly<Record<string, string>>): Promise<BareEdge> {
  const port = await findFreePort();
  const config = join(folder, `workerd-${port}.capnp`);
  const files = await readdir(folder);
  await writeFile(config, workerdConfig(files, port, variables, await readFile(WRANGLER_CONFIG, "utf8")));
  const binary: string = createRequire(import.meta.url)("workerd").default;
  const output: string[] = [];
  const child = await startChild({ name: "workerd", command: binary, args: ["serve", config], onLine: (line) => output.push(line) });
  if (child === undefined) throw new Error(`${binary} is not there`);
  const url = `http://127.0.0.1:${port}`;
  for (const until = Date.now() + READY_WITHIN_MS; ; ) {
    const response = await fetch(`${url}/v2/health/live`).catch(() => undefined);
    if (response?.ok === true) return { url, stop: () => child.stop() };
    if (Date.now() > until) {
      await child.stop();
      throw new Error(`workerd does not answer: ${output.join("\n")}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** workerd's own configuration format (workerd.capnp). */
function workerdConfig(files: readonly string[], port: number, variables: Readonly<Record<string, string>>, wranglerToml: string): string {
  const text = (value: string) => JSON.stringify(value);
  const date = /^compatibility_date = "(.*)"/m.exec(wranglerToml)?.[1] ?? "";
  const flags = /^compatibility_flags = \[(.*)\]/m.exec(wranglerToml)?.[1] ?? "";
  const script = files.find((file) => file.endsWith(".js")) ?? "";
  const engines = files.filter((file) => file.endsWith(".wasm")).map((file) => `(name = ${text(file)}, wasm = embed ${text(file)})`);
  const bindings = Object.entries(variables).map(([name, value]) => `(name = ${text(name)}, text = ${text(value)})`);
  return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [ (name = "edge", worker = .edge), (name = "internet", network = (allow = ["public", "private", "local"])) ],
  sockets = [ (name = "http", address = "127.0.0.1:${port}", http = (), service = "edge") ]
);
const edge :Workerd.Worker = (
  modules = [ (name = "main.js", esModule = embed ${text(script)}), ${engines.join(", ")} ],
  compatibilityDate = ${text(date)}, compatibilityFlags = [${flags}],
  bindings = [ ${bindings.join(", ")} ]
);
`;
}
