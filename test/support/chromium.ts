// A headless Chromium, driven by Playwright: the one that is on this machine, none is downloaded.
import { accessSync, constants, existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { type Browser, chromium } from "playwright-core";

const NAMES = ["chromium", "chromium-browser", "google-chrome"];

function findChromium(): string | undefined {
  const candidates = ["/usr/bin", ...(process.env["PATH"] ?? "").split(delimiter)].flatMap((folder) => NAMES.map((name) => join(folder, name)));
  return candidates.find((path) => {
    if (!existsSync(path)) return false;
    try {
      accessSync(path, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

const executablePath = findChromium();
export const hasChromium = executablePath !== undefined;

if (!hasChromium) console.warn("no Chromium on the PATH: tests of the playground in a browser are skipped");

/** It looks nothing up by itself, and runs as root as well. */
export async function startChromium(): Promise<Browser> {
  if (executablePath === undefined) throw new Error("no Chromium was found: install it, for example with apt-get install chromium");
  const args = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
  return await chromium.launch({ executablePath, args });
}
