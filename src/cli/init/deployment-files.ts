// A deployment around model projects, in a folder of the user's own: wrangler.toml for the Worker of the npm package, and
// what npm and git need.

import { readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { VERSION } from "../../core/version.ts";
import { SOURCE_ROOT } from "../local/paths.ts";

/** From the user's folder; `make-package.ts` gives the alias its name. */
const PACKAGE = "node_modules/edgetier/dist/package";
const ALIAS =
  '\n# What `edgetier engine build` makes of the models here.\n[alias]\nedgetier-deployment = "./dist/edge/deployment.mjs"\n';

/** @param folder of the user's @returns contents by path; those that are there are not to be overwritten */
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
      "# CUDA binaries are for regions on GPUs; the CPU's are in the package.\nonnxruntime-node-install=skip\n",
    ],
    [".gitignore", "node_modules/\ndist/\n.edgetier/\n.wrangler/\n"],
  ]);
}

/** The package's own, with what lies in the package named from here. */
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
