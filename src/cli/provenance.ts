// Provenance: collects the sources, command and package versions that a manifest records about its publication.

import { execFile } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import { promisify } from "node:util";
import packageJson from "../../package.json" with { type: "json" };
import { VERSION } from "../core/version.ts";
import type { PublishProvenance } from "../registry/publish.ts";
import { sha256HexSync } from "../toolchain/sha256-sync.ts";

const IGNORED_FOLDERS = new Set(["node_modules", "__pycache__"]);

/**
 * Collects the provenance of a project's next version.
 * @param folder the project's folder
 * @param command the publishing command, without paths, which would identify the machine
 */
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

/**
 * Hashes the output that `sha256sum` would print for all files in the order of their paths.
 * Paths with a part that begins with a dot are left out, and so are folders that tools create.
 */
async function hashSources(folder: string): Promise<PublishProvenance["source"]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const paths = entries
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)).split(sep));
  const sourcePaths = paths
    .filter((parts) => !parts.some((part) => part.startsWith(".") || IGNORED_FOLDERS.has(part)))
    .map((parts) => parts.join("/"))
    .sort();
  const lines: string[] = [];
  for (const path of sourcePaths)
    lines.push(`${sha256HexSync(await readFile(join(folder, path)))}  ${path}\n`);
  return { sha256: sha256HexSync(...lines), files: sourcePaths.length };
}

/** Reads the commit and its modifications. Undefined outside a repository, or without git. */
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
