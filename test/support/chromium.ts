// A headless Chromium, driven by Playwright: the one that is on this machine, none is downloaded.
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { type Browser, chromium } from "playwright-core";

const FOLDERS = ["/usr/bin", ...(process.env["PATH"] ?? "").split(delimiter)];
const executablePath =
  process.env["EDGETIER_CHROMIUM"] ??
  ["chromium", "chromium-browser", "google-chrome"]
    .flatMap((name) => FOLDERS.map((folder) => join(folder, name)))
    .find(existsSync);

/** Says why a test that needs a browser is skipped; undefined where there is one. */
export const browserSkipReason: string | undefined =
  executablePath === undefined
    ? "there is no Chromium on the PATH (EDGETIER_CHROMIUM names one)"
    : undefined;

/** It looks nothing up by itself, and runs as root as well. */
export async function startChromium(): Promise<Browser> {
  if (executablePath === undefined) throw new Error(browserSkipReason);
  const args = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
  ];
  return await chromium.launch({ executablePath, args });
}
