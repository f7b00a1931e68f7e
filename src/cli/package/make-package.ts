// Package build: compiles the sources to JavaScript in dist/package for `npm pack`; `prepack` runs it. Node strips no types
// in files under node_modules.

import { execFile } from "node:child_process";
import { copyFile, mkdir, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join, relative } from "node:path";
import { promisify } from "node:util";

const ROOT = join(import.meta.dirname, "../../..");
const OUT = join(ROOT, "dist/package");
const FOLDERS = ["src", "functions"];
/** Files that neither the compiler nor an installation needs. */
const EXCLUDED =
  /(?<!MOBILE)\.(md|py)$|(^|\/)tsconfig\.json$|^src\/playground\/screenshots\/|^src\/cli\/package\//;
/** Folders whose types are public: `exports` of package.json. */
const WITH_TYPES = /^src\/(client|protocol|core|cascade|registry|runtime|tasks)\//;
/** The deploying project builds the deployment module; an alias in its wrangler.toml points to it. */
const DEPLOYMENT_IMPORT = '"../../dist/edge/deployment.mjs"';
const DEPLOYMENT_ALIAS = "edgetier-deployment";

await rm(OUT, { recursive: true, force: true });
for (const project of ["tsconfig.json", "tsconfig.playground.json"])
  await compile(join(import.meta.dirname, project));
for (const folder of FOLDERS) await copyAssets(folder);
// `edgetier init` derives a project's wrangler.toml from this one.
await copyFile(join(ROOT, "wrangler.toml"), join(OUT, "wrangler.toml"));
for (const path of await listFiles(OUT)) {
  if (path.endsWith(".d.ts") && !WITH_TYPES.test(path)) await rm(join(OUT, path));
  else if (path.endsWith(".js")) await rewriteImports(join(OUT, path));
}

async function compile(project: string): Promise<void> {
  await promisify(execFile)(
    process.execPath,
    [createRequire(import.meta.url).resolve("typescript/lib/tsc.js"), "-p", project],
    { cwd: ROOT },
  ).catch((error: { readonly stdout: string }) => {
    process.stderr.write(error.stdout);
    process.exit(1);
  });
}

/** Copies files that are not compiled: data, pages, and plain JavaScript. */
async function copyAssets(folder: string): Promise<void> {
  for (const path of await listFiles(join(ROOT, folder))) {
    const name = join(folder, path);
    if (EXCLUDED.test(name) || (name.endsWith(".ts") && !name.endsWith(".d.ts"))) continue;
    await mkdir(dirname(join(OUT, name)), { recursive: true });
    await copyFile(join(ROOT, name), join(OUT, name));
  }
}

/** Rewrites `.ts` paths in string literals, which the compiler leaves alone: child processes, threads, bundler entries. */
async function rewriteImports(file: string): Promise<void> {
  const before = await readFile(file, "utf8");
  let after = before.replace(DEPLOYMENT_IMPORT, `"${DEPLOYMENT_ALIAS}"`);
  for (const [literal, path = ""] of before.matchAll(/"([\w./-]+)\.ts"/g))
    if (await isFile(join(dirname(file), `${path}.js`)))
      after = after.replace(literal, `"${path}.js"`);
  if (after !== before) await writeFile(file, after);
}

async function isFile(path: string): Promise<boolean> {
  return await stat(path).then(
    (stats) => stats.isFile(),
    () => false,
  );
}

async function listFiles(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)));
}
