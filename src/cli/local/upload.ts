// Worker upload: reads the modules and settings that `wrangler deploy` would upload from the form of a dry run.

import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import * as z from "zod";
import { reasonOf } from "../../core/errors.ts";
import { cliErrors } from "../errors.ts";
import { PROJECT_ROOT } from "./paths.ts";

export const WRANGLER_SCRIPT = join(
  dirname(createRequire(import.meta.url).resolve("wrangler/package.json")),
  "bin/wrangler.js",
);
export const QUIET_WRANGLER_ENVIRONMENT = {
  WRANGLER_SEND_METRICS: "false",
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
  WRANGLER_WRITE_LOGS: "false",
} as const;

export interface UploadModule {
  /** Uploaded name, by which scripts import the module. */
  readonly name: string;
  readonly kind: "script" | "wasm" | "data";
  readonly bytes: Uint8Array;
}

export interface WorkerUpload {
  /** Modules without source maps, the main script first. */
  readonly modules: readonly UploadModule[];
  /** `vars` of wrangler.toml. */
  readonly variables: Readonly<Record<string, string>>;
  readonly compatibilityDate: string;
  readonly compatibilityFlags: readonly string[];
}

/** Runs wrangler in the project's folder, without its telemetry. @throws Error with its output */
export async function runWrangler(args: readonly string[], signal?: AbortSignal): Promise<void> {
  const options = {
    cwd: PROJECT_ROOT,
    env: { ...process.env, ...QUIET_WRANGLER_ENVIRONMENT },
    ...(signal === undefined ? {} : { signal }),
  };
  await promisify(execFile)(process.execPath, [WRANGLER_SCRIPT, ...args], options);
}

/**
 * Bundles the Worker with wrangler.toml, whose build command builds the engine first.
 * @param file output file of the upload
 * @param options.entry entry point that replaces the one in wrangler.toml
 * @throws not_measured
 */
export async function bundleWorker(
  file: string,
  options: { readonly entry?: string; readonly signal?: AbortSignal } = {},
): Promise<WorkerUpload> {
  const entry = options.entry === undefined ? [] : [options.entry];
  try {
    await runWrangler(
      ["deploy", ...entry, "--dry-run", "--outdir", `${file}.out`, "--outfile", file],
      options.signal,
    );
    return await parseUpload(await readFile(file));
  } catch (error) {
    throw cliErrors.notMeasured("The Worker's bundle", reasonOf(error), error);
  }
}

const MODULE_KINDS: Readonly<Record<string, UploadModule["kind"]>> = {
  "application/javascript+module": "script",
  "application/wasm": "wasm",
  "application/octet-stream": "data",
};
const SOURCE_MAP = "application/source-map";

const metadataSchema = z.object({
  main_module: z.string(),
  compatibility_date: z.string(),
  compatibility_flags: z.array(z.string()).default([]),
  bindings: z
    .array(z.object({ name: z.string(), type: z.string(), text: z.string().optional() }))
    .default([]),
});

/** Parses an upload. @param form multipart/form-data: a part `metadata`, and one part per module */
export async function parseUpload(form: Buffer<ArrayBuffer>): Promise<WorkerUpload> {
  const boundary = form.subarray("--".length, form.indexOf("\n")).toString().trim();
  const parts = [
    ...(await new Response(form, {
      headers: { "content-type": `multipart/form-data; boundary=${boundary}` },
    }).formData()),
  ];
  const metadata = metadataSchema.parse(
    JSON.parse(String(parts.find(([name]) => name === "metadata")?.[1])),
  );
  const modules: UploadModule[] = [];
  for (const [name, part] of parts) {
    if (typeof part === "string" || part.type === SOURCE_MAP) continue;
    const kind = MODULE_KINDS[part.type];
    if (kind === undefined) throw new Error(`module ${name} has the unknown type ${part.type}`);
    modules.push({ name, kind, bytes: new Uint8Array(await part.arrayBuffer()) });
  }
  return {
    modules: modules.toSorted(
      (a, b) => Number(b.name === metadata.main_module) - Number(a.name === metadata.main_module),
    ),
    variables: Object.fromEntries(
      metadata.bindings.flatMap(({ name, type, text }) =>
        type === "plain_text" && text !== undefined ? [[name, text]] : [],
      ),
    ),
    compatibilityDate: metadata.compatibility_date,
    compatibilityFlags: metadata.compatibility_flags,
  };
}
