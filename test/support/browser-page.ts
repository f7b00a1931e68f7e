// Browser page: an empty page in a real browser, for tests of browser modules.
import type { Browser } from "playwright-core";
import { startChromium } from "./chromium.ts";
import { startTestHttpServer } from "./test-http-server.ts";

export interface TestPage {
  /** Calls an exported function of one of the files; arguments and result are JSON. */
  call(path: string, name: string, ...args: readonly unknown[]): Promise<unknown>;
  close(): Promise<void>;
}

/** Opens an empty page with its own origin, which serves `files` by path. */
export async function openTestPage(
  files: Readonly<Record<string, { readonly type: string; readonly bytes: Uint8Array }>> = {},
): Promise<TestPage> {
  const server = await startTestHttpServer((request, response) => {
    const file = files[request.url ?? ""];
    if (request.url === "/")
      response
        .writeHead(200, { "content-type": "text/html" })
        .end("<!doctype html><title>test</title>");
    else if (file === undefined) response.writeHead(404).end();
    else response.writeHead(200, { "content-type": file.type }).end(file.bytes);
  });
  let browser: Browser | undefined;
  try {
    browser = await startChromium();
    const page = await browser.newPage();
    await page.goto(server.url);
    const opened = browser;
    return {
      // The code is passed as text, because the test runner transforms functions.
      call: (path, name, ...args) =>
        page.evaluate(
          `import(${JSON.stringify(path)}).then((module) => module[${JSON.stringify(name)}](...${JSON.stringify(args)}))`,
        ),
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
