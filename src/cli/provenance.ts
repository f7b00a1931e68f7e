// How a version came to be published, for its manifest: what of, by which command, with which packages.

import { execFile } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import { promisify } from "node:util";
import packageJson from "../../package.json" with { type: "json" };
import { sha256HexSync } from "../toolchain/sha256-sync.ts";
import { VERSION } from "../core/version.ts";
import type { PublishProvenance } from "../registry/publish.ts";

/** What tools leave in a project's folder. */
const IGNORED_FOLDERS = new Set(["node_modules", "__pycache__"]);

/** @param folder of the project @param command without paths */
export async function collectProvenance(
  folder: string,
  command: string,
): Promise<PublishProvenance> {
  const [source, git] = await Promise.all([hashSources(folder), readGitState(folder)]);
  const { "onnxruntime-web": web, "onnxruntime-node": node } = packageJson.dependencies;
  return {
    command,
    source,
    versions: {
      edgetier: VERSION,
      node: process.versions.node,
      "onnxruntime-web": web,
      "onnxruntime-node": node,
    },
    ...(git === undefined ? {} : { git }),
  };
}

/** The digest of what `sha256sum` prints of all files in the order of their paths, those that begin with a dot left out. */
async function hashSources(folder: string): Promise<PublishProvenance["source"]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const paths = entries
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)).split(sep));
  const ours = paths
    .filter((parts) => !parts.some((part) => part.startsWith(".") || IGNORED_FOLDERS.has(part)))
    .map((parts) => parts.join("/"))
    .sort();
  const lines: string[] = [];
  for (const path of ours)
    lines.push(`${sha256HexSync(await readFile(join(folder, path)))}  ${path}\n`);
  return { sha256: sha256HexSync(...lines), files: ours.length };
}

/** Undefined where the folder is in no repository, or there is no git. */
async function readGitState(folder: string): Promise<PublishProvenance["git"]> {
  const git = async (...args: string[]) =>
    (await promisify(execFile)("git", ["-C", folder, ...args])).stdout.trim();
  try {
    return {
      commit: await git("rev-parse", "HEAD"),
      isModified: (await git("status", "--porcelain", "--", ".")) !== "",
    };
  } catch {
    return undefined;
  }
}
