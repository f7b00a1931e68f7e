// Chromium, where this machine has it, for what must run in a real page.
import { existsSync } from "node:fs";
import { type Browser, chromium } from "playwright-core";
import { startTinyServer } from "./tiny-server.ts";

const EXECUTABLE = process.env["EDGETIER_CHROMIUM"] ?? ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);
/** Without them it looks for hosts of its maker. */
const QUIET = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

/** Says why a test that needs a browser is skipped; undefined where there is one. */
export const whyNoBrowser: string | undefined = EXECUTABLE === undefined ? "there is no Chromium (EDGETIER_CHROMIUM names one)" : undefined;

export interface TestPage {
  /** Calls a function that a module among the files exports; arguments and result are JSON. */
  call(path: string, name: string, ...args: readonly unknown[]): Promise<unknown>;
  close(): Promise<void>;
}

/** An empty page of an origin of its own, which serves `files` by their path. */
export async function openPage(files: Readonly<Record<string, { readonly type: string; readonly bytes: Uint8Array }>> = {}): Promise<TestPage> {
  const server = await startTinyServer((request, response) => {
    const file = files[request.url ?? ""];
    if (request.url === "/") response.writeHead(200, { "content-type": "text/html" }).end("<!doctype html><title>test</title>");
    else if (file === undefined) response.writeHead(404).end();
    else response.writeHead(200, { "content-type": file.type }).end(file.bytes);
  });
  let browser: Browser | undefined;
  try {
    browser = await chromium.launch({ ...(EXECUTABLE === undefined ? {} : { executablePath: EXECUTABLE }), args: QUIET });
    const page = await browser.newPage();
    await page.goto(server.url);
    const opened = browser;
    return {
      // As text: a function would be what the test runner has made of it.
      call: (path, name, ...args) => page.evaluate(`import(${JSON.stringify(path)}).then((module) => module[${JSON.stringify(name)}](...${JSON.stringify(args)}))`),
      async close() {
        await opened.close();
        await server.stop();
      },
    };
  } catch (error) {
    await browser?.close();
    await server.stop();
    throw error;
  }
}
