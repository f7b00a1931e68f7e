// The playground in a real browser, on the system that `npm start` runs.
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import type {
  Browser,
  BrowserContextOptions,
  Page,
  Response as PageResponse,
} from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { type LocalSystem, startLocalSystem } from "../../src/cli/local/system.ts";
import { type ModelReport, modelReportSchema } from "../../src/protocol/model-report.ts";
import { createS3ObjectStore } from "../../src/registry/drivers/s3.ts";
import { createModelStore } from "../../src/registry/object-model-store.ts";
import { startChromium, browserSkipReason } from "../support/chromium.ts";
import { DIMENSIONS, publishEmbeddingModel } from "../support/embedding-model.ts";
import { sendTraffic } from "../support/playground-traffic.ts";
import { createTestApiKey } from "../support/test-credentials.ts";

const MAX_FIRST_LOAD_GZIP_BYTES = 60_000;
const ESCALATED_TEXT = "tell me something odd about the moon";
const SHIP = join(import.meta.dirname, "../../models/vision/example/ship.jpg");
const skipped = browserSkipReason === undefined ? "" : `, skipped: ${browserSkipReason}`;
const axeSource = await readFile(
  createRequire(import.meta.url).resolve("axe-core/axe.min.js"),
  "utf8",
);

interface OpenPage {
  readonly page: Page;
  readonly responses: PageResponse[];
}

let folder: string;
let system: LocalSystem;
let browser: Browser;
/** Unexpected console messages, errors and requests of every page. */
let faults: string[] = [];
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-playground-"));
  [system, browser] = await Promise.all([
    startLocalSystem({ stateFolder: folder }),
    startChromium(),
  ]);
});
afterAll(async () => {
  await browser?.close();
  await system?.stop();
  await rm(folder, { recursive: true, force: true });
});
afterEach(async () => {
  await Promise.all(browser.contexts().map((context) => context.close()));
  const found = faults;
  faults = [];
  if (found.length > 0) throw new Error(`the browser told of ${found.join("; ")}`);
});

async function open(
  options: BrowserContextOptions = {},
  url = system.urls.edge,
): Promise<OpenPage> {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 900 },
    ...options,
  });
  await context.addInitScript(axeSource);
  const page = await context.newPage();
  const responses: PageResponse[] = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type()))
      faults.push(`${message.type()}: ${message.text()} (${message.location().url})`);
  });
  page.on("pageerror", (error) => faults.push(`uncaught: ${error.message}`));
  page.on("request", (request) => {
    if (!request.url().startsWith(url) && !request.url().startsWith("blob:"))
      faults.push(`a request to ${request.url()}`);
  });
  page.on("response", (response) => responses.push(response));
  await page.goto(`${url}/`);
  return { page, responses };
}

const status = (page: Page) => page.locator("#status");
const fact = (page: Page, name: string) => page.locator(`[data-fact=${name}] b`);
const tier = (page: Page, id: string) => page.locator(`[data-tier=${id}]`);

const describePlayground = browserSkipReason === undefined ? describe : describe.skip;

describePlayground(`playground, the page${skipped}`, () => {
  it("loads within its bytes, under a policy that allows this edge alone", async () => {
    const { page, responses } = await open();
    await page.locator("#live-panels table").first().waitFor();
    await page.locator("#threshold").waitFor();
    const sizes = await Promise.all(
      responses.map(async (response) => ({
        path: new URL(response.url()).pathname,
        gzipBytes: gzipSync(await response.body()).byteLength,
      })),
    );
    const total = sizes.reduce((sum, { gzipBytes }) => sum + gzipBytes, 0);
    const paint: unknown = await page.evaluate(
      "performance.getEntriesByName('first-contentful-paint')[0].startTime",
    );
    console.log(
      `first load: ${total} bytes gzip in ${sizes.length} responses (${sizes.map(({ path, gzipBytes }) => `${path} ${gzipBytes}`).join(", ")}); first contentful paint after ${Math.round(Number(paint))} ms`,
    );
    expect(total).toBeLessThan(MAX_FIRST_LOAD_GZIP_BYTES);
    const headers = responses[0]?.headers() ?? {};
    expect(headers["content-security-policy"]).toMatch(
      /^default-src 'none'; script-src 'self'; style-src 'self'; /,
    );
    expect(headers["content-security-policy"]).not.toContain("unsafe");
    expect(headers).toMatchObject({
      "x-content-type-options": "nosniff",
      "cache-control": "public, max-age=0, must-revalidate",
    });
    const script = responses.find((response) => response.url().endsWith(".js"));
    expect(script?.headers()["cache-control"]).toBe("public, max-age=31536000, immutable");
  });
});

describePlayground(`playground, a text${skipped}`, () => {
  it("answers a text, asked by keyboard alone, and tells how", async () => {
    const { page } = await open();
    await page.locator("#threshold").waitFor();
    const focused = async () =>
      String(
        await page.evaluate("document.activeElement.id || document.activeElement.textContent"),
      );
    await page.keyboard.press("Tab");
    expect(await focused()).toBe("Skip to the playground");
    await page.keyboard.press("Enter");
    const visited: string[] = [];
    for (let press = 0; press < 4; press++) {
      await page.keyboard.press("Tab");
      visited.push(await focused());
    }
    expect(visited).toEqual(["model", "version", "text", "Deadline, cache and tiers"]);
    await page.keyboard.press("Shift+Tab");
    await page.keyboard.press("Control+a");
    await page.keyboard.type("how do i freeze my account");
    await page.keyboard.press("Control+Enter");
    await waitForAnswer(page);
    expect(await status(page).textContent()).toBe("freeze_account, answered by edge-int8.");
    expect(await page.locator("#answer .ranking tbody tr").count()).toBe(5);
    expect(await tier(page, "edge-int8").textContent()).toMatch(
      /“freeze_account”, confidence 0\.9\d+; exits from 0\.\d{4}/,
    );
    expect(await tier(page, "region-int8").textContent()).toContain("was not needed");
    expect(await fact(page, "version").textContent()).toBe("intent@1");
    expect(await fact(page, "request").textContent()).toMatch(/^[\da-f-]{36}$/);
    expect(await page.locator("#answer pre").textContent()).toBe(
      `curl ${system.urls.edge}/v1/models/intent/predict \\\n  --json '{"inputs":"how do i freeze my account"}'`,
    );
  });
});

describePlayground(`playground, an escalation${skipped}`, () => {
  it("shows each tier of an escalation with its confidence, then the cache, then what a deadline degrades", async () => {
    const { page } = await open();
    await page.locator("summary", { hasText: "Deadline, cache and tiers" }).click();
    await page.locator("#deadline").fill("10000"); // on a busy machine the model's own may pass
    await page.locator("#text").fill(ESCALATED_TEXT);
    await page.locator("#send").click();
    await waitForAnswer(page);
    expect(await fact(page, "cache").textContent()).toBe("miss");
    expect(await tier(page, "region-int8").textContent()).toMatch(
      /answered as the last tier.*confidence 0\.\d{4}; answers every input/,
    );
    await tier(page, "edge-int8").locator(".bar").waitFor(); // the page fetches it afterwards
    expect(await tier(page, "edge-int8").textContent()).toMatch(
      /escalated to the next tier.*confidence 0\.\d{4}; exits from 0\.\d{4}/,
    );
    await page.locator("#send").click();
    await fact(page, "cache")
      .getByText(/^l[12]$/)
      .waitFor();
    expect(await tier(page, "region-int8").textContent()).toContain("returned the cached output");

    await page.locator("#cache").selectOption("bypass");
    await page.locator("#max-tier").selectOption("edge-int8");
    await page.locator("#send").click();
    await fact(page, "cache").getByText("bypass").waitFor();
    expect(await tier(page, "edge-int8").textContent()).toContain(
      "answered as the last allowed tier",
    );
    expect(await page.locator("#answer pre").textContent()).toContain(
      `"parameters":{"cache":"bypass","maxTier":"edge-int8"}`,
    );
    await page.locator("#max-tier").selectOption("");
    await page.locator("#deadline").fill("1");
    await page.locator("#send").click();
    await status(page)
      .getByText(/degraded: deadline/)
      .waitFor();
    expect(await page.locator("#answer pre").textContent()).toContain("-H 'x-deadline-ms: 1'");
  });
});

describePlayground(`playground, images and vectors${skipped}`, () => {
  it("takes an image that is chosen or dropped, and says what is wrong with another file", async () => {
    const { page } = await open();
    await page.locator("#threshold").waitFor();
    await page.locator("#model").selectOption("vision");
    await page.locator("#image").setInputFiles(SHIP);
    await waitForAnswer(page);
    expect(await status(page).textContent()).toMatch(/^ship, answered by edge-int8/);
    expect(await page.locator("#answer pre").textContent()).toMatch(
      /-H 'content-type: image\/jpeg' \\\n {2}--data-binary @ship\.jpg$/,
    );
    expect(await page.locator(".drop img").getAttribute("src")).toMatch(/^blob:/);
    const dropped = await page.evaluateHandle(
      `(() => { const all = new DataTransfer(); all.items.add(new File(["GIF89a"], "moving.png", { type: "image/png" })); return all; })()`,
    );
    await page.locator(".drop").dispatchEvent("drop", { dataTransfer: dropped });
    await status(page).and(page.locator(".bad")).waitFor();
    expect(await page.locator("#image-name").textContent()).toMatch(/^moving\.png/);
    expect(await status(page).textContent()).toMatch(/image|JPEG|PNG/);
    faults = faults.filter((fault) => !/status of 4\d\d/.test(fault)); // the browser logs every rejection
  });

  it("gives vectors of two texts, and how alike they are", async () => {
    await publishEmbeddingModel(createModelStore(createS3ObjectStore(system.store)), {
      places: ["region"],
      deadlineMs: 30_000,
    });
    const { page } = await open();
    await page.locator("#threshold").waitFor();
    await page.locator("#model").selectOption("vectors");
    await page.locator("#other-text").fill("good good");
    await page.locator("#text").fill("bad");
    await page.getByRole("button", { name: "Embed" }).click();
    await waitForAnswer(page);
    expect(await status(page).textContent()).toMatch(
      new RegExp(
        `^Vectors of ${DIMENSIONS} numbers; the cosine similarity of the texts is -?\\d\\.\\d{4}\\.$`,
      ),
    );
    expect(await fact(page, "version").textContent()).toBe("vectors@1");
    expect(await page.locator("#report").textContent()).toContain(
      "vectors@1 was published without a report.",
    );
  });
});

describePlayground(`playground, the report and the metrics${skipped}`, () => {
  it("says what another threshold would cost, as the version's report has it", async () => {
    const { page } = await open();
    const slider = page.locator("#threshold");
    await slider.waitFor();
    const report: ModelReport = modelReportSchema.parse(
      await (await fetch(`${system.urls.edge}/v1/models/intent/report`)).json(),
    );
    const served = Number(await slider.inputValue());
    const figure = async (name: string) =>
      (await page.locator(`[data-figure=${name}] dd`).textContent()) ?? "";
    expect(await figure("coverage")).toContain("as served");
    expect(await figure("holds")).toMatch(/^verified/);
    await slider.focus();
    await page.keyboard.press("ArrowRight");
    const riskier = report.points[served + 1];
    expect(await slider.inputValue()).toBe(String(served + 1));
    expect(await figure("region")).toMatch(
      new RegExp(`^${(100 * (riskier?.shares.at(-1) ?? 0)).toFixed(1)} %−[\\d.]+ points$`),
    );
    expect(await figure("holds")).toMatch(/^not verified/);
    expect(await slider.getAttribute("aria-valuetext")).toContain(
      `threshold ${riskier?.thresholds[0]?.toFixed(4)}`,
    );
    await page.keyboard.press("Home");
    expect(await figure("region")).toMatch(/^100\.0 %\+/);
    await page.getByText("Reset to the served threshold").click();
    expect(await slider.inputValue()).toBe(String(served));
    expect(await page.locator("#thresholds svg[role=img]").count()).toBe(2);
    expect(await page.locator("#risk-desc").textContent()).toContain("Served:");
  });

  it("shows what the edge has counted, region, caches and versions", async () => {
    const { page } = await open();
    await sendTraffic(system.urls.edge, 2);
    const live = page.locator("#live-panels");
    await live
      .locator("td", { hasText: /^vision$/ })
      .nth(1)
      .waitFor();
    const text = (await live.textContent()) ?? "";
    expect(text).toMatch(/edge-int8[\d,]+[\d.]+ %/);
    expect(text).toMatch(/intent[\d,.]+250/); // its deadline stands at the end of its row
    expect(text).toMatch(/vision[\d,.]+500/);
    expect(text).toMatch(/l1[\d,]+[\d.]+ %/);
    expect(text).toContain("healthy");
    expect(text).toMatch(/intentstablev1100 %/);
    await page.locator("#window").selectOption("minute");
    await live
      .locator("#traffic-desc")
      .getByText(/at most [\d.]+ a second/)
      .waitFor({ state: "attached" });
  });
});

describePlayground(`playground, accessibility${skipped}`, () => {
  it.each([
    ["light", 1280],
    ["dark", 1280],
    ["light", 360],
    ["dark", 360],
  ] as const)(
    "has nothing that axe objects to, %s and %i pixels wide",
    async (colorScheme, width) => {
      const { page } = await open({
        colorScheme,
        viewport: { width, height: 800 },
        reducedMotion: "reduce",
      });
      await page.locator("#threshold").waitFor();
      await page.locator("#text").fill(ESCALATED_TEXT);
      await page.locator("#send").click();
      await waitForAnswer(page);
      await tier(page, "edge-int8").locator(".bar").waitFor();
      await page.evaluate(
        "for (const one of document.querySelectorAll('details')) one.open = true",
      );
      await page.evaluate(
        "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))",
      ); // what now has to be scrolled can then be reached
      await page.locator("#live-panels table").first().waitFor();
      expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(
        width,
      );
      const violations = await page.evaluate(
        "axe.run().then(({ violations }) => violations.map(({ id, nodes }) => ({ id, nodes: nodes.map(({ html, failureSummary }) => [html, failureSummary]) })))",
      );
      expect(violations).toEqual([]);
      const ground = await page.evaluate(
        "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number).reduce((a, b) => a + b) / 3 > 128 ? 'light' : 'dark'",
      );
      expect(ground).toBe(colorScheme);
    },
  );
});

describe.skipIf(browserSkipReason !== undefined)(
  `the playground of an edge that asks for keys${skipped}`,
  () => {
    it("asks for one, keeps it in the tab, and sends it with every request", async () => {
      const folder = await mkdtemp(join(tmpdir(), "edgetier-playground-"));
      const { key, entry } = await createTestApiKey({
        id: "page",
        scopes: ["predict", "metadata"],
      });
      const [system, browser] = await Promise.all([
        startLocalSystem({
          stateFolder: folder,
          withRegion: false,
          withRedis: false,
          edgeVariables: { EDGETIER_API_KEYS: JSON.stringify([entry]) },
        }),
        startChromium(),
      ]);
      try {
        const page = await browser.newPage();
        await page.goto(`${system.urls.edge}/`);
        await page
          .getByRole("alert")
          .getByText("Enter an API key at the top of the page.")
          .waitFor();
        await page.getByLabel("API key").fill(key);
        await page.getByRole("button", { name: "Use" }).click();
        await page.locator("#threshold").waitFor();
        expect(await page.getByRole("alert").count()).toBe(0);
        await page.locator("#send").click();
        await waitForAnswer(page);
        expect(await page.locator("#answer pre").textContent()).toContain(
          '-H "authorization: Bearer $EDGETIER_API_KEY"',
        );
        expect(await page.content()).not.toContain(key);
        await page.reload();
        await page.locator("#threshold").waitFor();
        expect(await page.evaluate("localStorage.length")).toBe(0);
      } finally {
        await browser.close();
        await system.stop();
        await rm(folder, { recursive: true, force: true });
      }
    }, 180_000);
  },
);

async function waitForAnswer(page: Page): Promise<void> {
  await page.locator("#answer .label").waitFor();
}
