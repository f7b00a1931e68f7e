// Starts a headless Chromium with Playwright. It uses the installed browser and downloads none.
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { type Browser, chromium } from "playwright-core";

const FOLDERS = ["/usr/bin", ...(process.env["PATH"] ?? "").split(delimiter)];
const executablePath =
  process.env["EDGETIER_CHROMIUM"] ??
  ["chromium", "chromium-browser", "google-chrome"]
    .flatMap((name) => FOLDERS.map((folder) => join(folder, name)))
    .find(existsSync);

/** Reason for skipping tests that need a browser; undefined if a browser is installed. */
export const browserSkipReason: string | undefined =
  executablePath === undefined
    ? "there is no Chromium on the PATH (EDGETIER_CHROMIUM names one)"
    : undefined;

/** Starts the browser without background requests; it also runs as root. */
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
