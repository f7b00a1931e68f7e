// The playground's files as the Worker's static assets: a script, a style and an icon under names of their digests, the page that names
// them, and the headers of all. Made anew each time, which takes less than finding out whether it has to be.

import { existsSync } from "node:fs";
import { readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { sha256HexSync } from "../sha256-sync.ts";
import { writeFileAtomic } from "../write-file-atomic.ts";

/** In the assets' folder: what is there may be kept for ever. */
const HASHED_FOLDER = "page";
const ESBUILD_TARGET = "es2023";

/**
 * Only this edge is asked and only its files are run, none of them in the page itself; `blob:` shows an image before it is sent, and
 * trusted types keep answers from becoming markup.
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

/** In the form that Cloudflare reads (https://developers.cloudflare.com/workers/static-assets/headers/). */
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
 * @param sourceFolder with main.ts (main.js, where it has been compiled), style.css, icon.svg and index.html
 * @param outFolder what is there and not of this build is removed
 */
export async function buildPlaygroundAssets(
  sourceFolder: string,
  outFolder: string,
): Promise<void> {
  const { build } = await import("esbuild");
  const bundle = async (file: string) => {
    const { outputFiles } = await build({
      entryPoints: [join(sourceFolder, file)],
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
  };
  const parts = {
    script: {
      extension: "js",
      bytes: await bundle(existsSync(join(sourceFolder, "main.ts")) ? "main.ts" : "main.js"),
    },
    style: { extension: "css", bytes: await bundle("style.css") },
    icon: { extension: "svg", bytes: await readFile(join(sourceFolder, "icon.svg")) },
  };
  const named = Object.entries(parts).map(([part, { extension, bytes }]) => ({
    part,
    name: `${part}-${sha256HexSync(bytes).slice(0, 12)}.${extension}`,
    bytes,
  }));
  const template = await readFile(join(sourceFolder, "index.html"), "utf8");
  const page = named.reduce(
    (html, { part, name }) => html.replaceAll(`{{${part}}}`, `/${HASHED_FOLDER}/${name}`),
    template,
  );

  for (const { name, bytes } of named)
    await writeFileAtomic(join(outFolder, HASHED_FOLDER, name), bytes);
  await writeFileAtomic(join(outFolder, "index.html"), page);
  await writeFileAtomic(join(outFolder, "_headers"), HEADERS_FILE);
  const kept = new Set(named.map(({ name }) => name));
  const stale = (await readdir(join(outFolder, HASHED_FOLDER))).filter(
    (name) => /^(script|style|icon)-[0-9a-f]{12}\.\w+$/.test(name) && !kept.has(name),
  );
  await Promise.all(stale.map((name) => rm(join(outFolder, HASHED_FOLDER, name), { force: true })));
}
