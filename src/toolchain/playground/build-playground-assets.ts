// Playground assets: builds the playground's files as the Worker's static assets. Script, style and icon have names with
// their digests; the page refers to them; `_headers` has the headers of all. The files are rebuilt each time, because a
// check for changes would take longer.

import { existsSync } from "node:fs";
import { readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { sha256HexSync } from "../sha256-sync.ts";
import { writeFileAtomic } from "../write-file-atomic.ts";

/** Subfolder of files with a digest in their name, which clients may cache forever. */
const HASHED_FOLDER = "page";
const ESBUILD_TARGET = "es2023";

/**
 * Allows requests to this edge only, and scripts from its files only, none inline. `blob:` shows an image before it is
 * sent. Trusted types keep responses from being parsed as markup.
 */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' blob:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join("; ");

/** Headers in Cloudflare's format (https://developers.cloudflare.com/workers/static-assets/headers/). */
const HEADERS_FILE = `/*
  Content-Security-Policy: ${CONTENT_SECURITY_POLICY}
  X-Content-Type-Options: nosniff
  Referrer-Policy: no-referrer
  Cross-Origin-Opener-Policy: same-origin
  Cross-Origin-Resource-Policy: same-origin
  Permissions-Policy: camera=(), geolocation=(), microphone=()
  Strict-Transport-Security: max-age=15552000
/${HASHED_FOLDER}/*
  ! Cache-Control
  Cache-Control: public, max-age=31536000, immutable
`;

/**
 * @param sourceFolder contains main.ts (main.js if compiled), style.css, icon.svg and index.html
 * @param outFolder hashed files of former builds are removed from it
 */
export async function buildPlaygroundAssets(
  sourceFolder: string,
  outFolder: string,
): Promise<void> {
  const mainFile = existsSync(join(sourceFolder, "main.ts")) ? "main.ts" : "main.js";
  const assets = [
    hashAsset("script", "js", await bundle(join(sourceFolder, mainFile))),
    hashAsset("style", "css", await bundle(join(sourceFolder, "style.css"))),
    hashAsset("icon", "svg", await readFile(join(sourceFolder, "icon.svg"))),
  ];
  const template = await readFile(join(sourceFolder, "index.html"), "utf8");
  const page = assets.reduce(
    (html, { part, name }) => html.replaceAll(`{{${part}}}`, `/${HASHED_FOLDER}/${name}`),
    template,
  );

  for (const { name, bytes } of assets)
    await writeFileAtomic(join(outFolder, HASHED_FOLDER, name), bytes);
  await writeFileAtomic(join(outFolder, "index.html"), page);
  await writeFileAtomic(join(outFolder, "_headers"), HEADERS_FILE);
  const current = new Set(assets.map(({ name }) => name));
  const stale = (await readdir(join(outFolder, HASHED_FOLDER))).filter(
    (name) => /^(script|style|icon)-[0-9a-f]{12}\.\w+$/.test(name) && !current.has(name),
  );
  await Promise.all(stale.map((name) => rm(join(outFolder, HASHED_FOLDER, name), { force: true })));
}

/** esbuild is imported on demand, because only builds need it. */
async function bundle(path: string): Promise<Uint8Array> {
  const { build } = await import("esbuild");
  const { outputFiles } = await build({
    entryPoints: [path],
    bundle: true,
    write: false,
    minify: true,
    format: "esm",
    target: ESBUILD_TARGET,
    charset: "utf8",
    legalComments: "none",
    logLevel: "silent",
  });
  return outputFiles[0]?.contents ?? new Uint8Array();
}

const hashAsset = (part: string, extension: string, bytes: Uint8Array) => ({
  part,
  name: `${part}-${sha256HexSync(bytes).slice(0, 12)}.${extension}`,
  bytes,
});
