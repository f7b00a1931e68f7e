// An empty page in a real browser, for modules that have to run in one.
import type { Browser } from "playwright-core";
import { startChromium } from "./chromium.ts";
import { startTestHttpServer } from "./test-http-server.ts";

export interface TestPage {
  /** Calls a function that a module among the files exports; arguments and result are JSON. */
  call(path: string, name: string, ...args: readonly unknown[]): Promise<unknown>;
  close(): Promise<void>;
}

/** An empty page of an origin of its own, which serves `files` by their path. */
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
      // As text: a function would be what the test runner has made of it.
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
