// Deployment files: renders wrangler.toml for the npm package's Worker, and the files for npm and git, for a user's folder.

import { readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { VERSION } from "../../core/version.ts";
import { SOURCE_ROOT } from "../local/paths.ts";

/** Path of the package from the user's folder. */
const PACKAGE = "node_modules/edgetier/dist/package";
const ALIAS =
  '\n# The module that `edgetier engine build` creates from the models in this folder.\n[alias]\nedgetier-deployment = "./dist/edge/deployment.mjs"\n';

/**
 * Renders the files by path. The caller must not overwrite existing files.
 * @param folder the user's folder, whose name becomes the Worker's
 */
export async function renderDeploymentFiles(folder: string): Promise<ReadonlyMap<string, string>> {
  const name =
    basename(folder)
      .toLowerCase()
      .replaceAll(/[^a-z0-9-]+/g, "-")
      .replaceAll(/^-+|-+$/g, "") || "edgetier";
  return new Map([
    [
      "wrangler.toml",
      renderWranglerConfig(await readFile(join(SOURCE_ROOT, "wrangler.toml"), "utf8"), name),
    ],
    [
      "package.json",
      `${JSON.stringify({ name, private: true, type: "module", scripts: { start: "edgetier start", deploy: "edgetier deploy" }, dependencies: { edgetier: VERSION } }, undefined, 2)}\n`,
    ],
    [
      ".npmrc",
      "# Skips the CUDA binaries, which only regions with GPUs need. The package includes the CPU binaries.\nonnxruntime-node-install=skip\n",
    ],
    [".gitignore", "node_modules/\ndist/\n.edgetier/\n.wrangler/\n"],
  ]);
}

/** Adapts the package's wrangler.toml: the Worker's name, the build command, and paths into the package. */
function renderWranglerConfig(text: string, name: string): string {
  const changed = text
    .replace(/^name = .*$/m, `name = ${JSON.stringify(name)}`)
    .replace(/^(command = )"[^"]*".*$/m, '$1"npx edgetier engine build"')
    .replaceAll(
      /^([a-z_]+ = )"((?:functions|src)\/[^"]+)"/gm,
      (_, key: string, path: string) => `${key}"${PACKAGE}/${path.replace(/\.ts$/, ".js")}"`,
    );
  return `${changed.trimEnd()}\n${ALIAS}`;
}
