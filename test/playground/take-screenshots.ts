// Screenshot generator: starts a system and takes the README's pictures of the playground (`npm run screenshots`). Each PNG
// must be below a size limit.
import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { PLAYGROUND_FOLDER } from "../../src/cli/local/paths.ts";
import { startLocalSystem } from "../../src/cli/local/system.ts";
import { startChromium } from "../support/chromium.ts";
import { sendTraffic } from "../support/playground-traffic.ts";

const MAX_BYTES = 150_000;
const ESCALATED_TEXT = "tell me something odd about the moon";
/** Number of polls before the picture of the live panel. */
const POLLS = 12;

const folder = await mkdtemp(join(tmpdir(), "edgetier-screenshots-"));
const system = await startLocalSystem({ stateFolder: folder });
const browser = await startChromium();

async function open(colorScheme: "light" | "dark"): Promise<Page> {
  const page = await browser.newPage({
    viewport: { width: 1180, height: 860 },
    colorScheme,
    reducedMotion: "reduce",
  });
  await page.goto(`${system.urls.edge}/`);
  await page.locator("#threshold").waitFor();
  await page.locator("#text").fill(ESCALATED_TEXT);
  await page.locator("#send").click();
  await page.locator("[data-tier=edge-int8] .bar").waitFor();
  return page;
}

async function takeScreenshot(page: Page, section: string, name: string): Promise<void> {
  const path = join(PLAYGROUND_FOLDER, "screenshots", name);
  await page.locator(section).screenshot({ path });
  const { size } = await stat(path);
  if (size > MAX_BYTES)
    throw new Error(`${name} has ${size} bytes; the limit is ${MAX_BYTES}. Reduce its content.`);
  console.log(`${name}: ${size} bytes`);
}

try {
  await takeScreenshot(await open("light"), "#try", "playground.png");
  const page = await open("dark");
  for (let poll = 0; poll < POLLS; poll++) {
    const polled = page.waitForResponse((response) => response.url().endsWith("/metrics"));
    await sendTraffic(system.urls.edge, 1 + (poll % 4));
    await polled;
  }
  await takeScreenshot(page, "#live", "dashboard.png");
  await takeScreenshot(page, "#thresholds", "thresholds.png");
} finally {
  await browser.close();
  await system.stop();
  await rm(folder, { recursive: true, force: true });
}
