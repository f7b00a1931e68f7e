// Tests the exported edge tier of `intent` in a browser page with onnxruntime-web, next to the whole system. Answers and exits
// are those of the edge tier, and the edge answers the rest.
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "esbuild";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { generateQueries } from "../../src/cli/load/query-generator.ts";
import { MODELS_FOLDER, PROJECT_ROOT } from "../../src/cli/local/paths.ts";
import { type LocalSystem, startLocalSystem } from "../../src/cli/local/system.ts";
import { createClient } from "../../src/client/index.ts";
import { exportForDevice } from "../../src/toolchain/export/export-device.ts";
import { readProject } from "../../src/toolchain/project.ts";
import type { OnDeviceScenarioResult } from "../client/on-device-scenario.ts";
import { openTestPage, type TestPage } from "../support/browser-page.ts";
import { browserSkipReason } from "../support/chromium.ts";

const TEXTS = generateQueries(300, 8);
/** Maximum difference of a confidence, because operators that are fused by other rules round differently. */
const TOLERANCE = 1e-4;

/** Opens a page with the scenario, onnxruntime-web and the exported files. */
async function openDevicePage(files: ReadonlyMap<string, Uint8Array>): Promise<TestPage> {
  const { outputFiles } = await build({
    entryPoints: [join(PROJECT_ROOT, "test/client/on-device-scenario.ts")],
    bundle: true,
    format: "esm",
    platform: "browser",
    write: false,
    external: ["/ort/*"],
  });
  const runtime = async (file: string) =>
    new Uint8Array(await readFile(join(PROJECT_ROOT, "node_modules/onnxruntime-web/dist", file)));
  const module = (bytes: Uint8Array) => ({ type: "text/javascript", bytes });
  return await openTestPage({
    "/on-device-scenario.js": module(outputFiles[0]?.contents ?? new Uint8Array()),
    "/ort/ort.wasm.min.mjs": module(await runtime("ort.wasm.min.mjs")),
    "/ort/ort-wasm-simd-threaded.mjs": module(await runtime("ort-wasm-simd-threaded.mjs")),
    "/ort/ort-wasm-simd-threaded.wasm": {
      type: "application/wasm",
      bytes: await runtime("ort-wasm-simd-threaded.wasm"),
    },
    ...Object.fromEntries(
      [...files].map(([name, bytes]) => [
        `/model/${name}`,
        { type: "application/octet-stream", bytes },
      ]),
    ),
  });
}

let folder: string;
let system: LocalSystem;
let page: TestPage;
let found: OnDeviceScenarioResult;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-device-"));
  system = await startLocalSystem({
    stateFolder: folder,
    edgeVariables: { EDGETIER_CORS_ORIGINS: "*" },
  });
  const { files } = await exportForDevice(await readProject(join(MODELS_FOLDER, "intent")), null);
  page = await openDevicePage(files);
  found = (await page.call(
    "/on-device-scenario.js",
    "runOnDeviceScenario",
    system.urls.edge,
    TEXTS,
  )) as OnDeviceScenarioResult;
}, 240_000);

afterAll(async () => {
  await page?.close();
  await system?.stop();
  await rm(folder, { recursive: true, force: true });
});

const describeOnDevice = browserSkipReason === undefined ? describe : describe.skip;
const skipped = browserSkipReason === undefined ? "" : `: skipped, ${browserSkipReason}`;

describeOnDevice(`on a device${skipped}`, () => {
  it("gives the answers of the edge's tier, with its confidences", async () => {
    const edge = createClient({ url: system.urls.edge, deadlineMs: 20_000 });
    let largest = 0;
    for (const [index, text] of TEXTS.entries()) {
      const {
        outputs: [output],
      } = await edge.predict("intent", text, { maxTier: "edge-int8", cache: "bypass" });
      expect(found.deviceOnly[index]?.label, text).toBe(output.label);
      largest = Math.max(
        largest,
        Math.abs(output.confidence - (found.deviceOnly[index]?.confidence ?? Number.NaN)),
      );
    }
    console.log(`largest difference of a confidence over ${TEXTS.length} texts: ${largest}`);
    expect(largest).toBeLessThan(TOLERANCE);
  });

  it("exits for the same texts, and the others get the edge's answers", async () => {
    const edge = createClient({ url: system.urls.edge, deadlineMs: 20_000 });
    let exits = 0;
    for (const [index, text] of TEXTS.entries()) {
      const {
        outputs: [output],
      } = await edge.predict("intent", text, { cache: "bypass" });
      const isSure = output.tier === "edge-int8";
      exits += Number(isSure);
      const { label, tier, degraded, source } = found.withEdge[index] ?? {};
      expect({ label, tier, degraded, isByDevice: source === "device" }, text).toEqual({
        label: output.label,
        tier: output.tier,
        degraded: false,
        isByDevice: isSure,
      });
    }
    console.log(
      `${exits} of ${TEXTS.length} exit, on the device as at the edge; ${found.edgeRequestCount} requests reached the edge; p50 ${found.p50Ms.toFixed(2)} ms on the device; opened in ${found.loadMs.toFixed(0)} ms`,
    );
    expect(exits).toBeGreaterThan(0);
    expect(found.edgeRequestCount).toBe(TEXTS.length - exits);
  });
});
