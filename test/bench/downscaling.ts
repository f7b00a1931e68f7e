// Downscaling before upload: measures saved bytes and lost accuracy. Validation images are enlarged to photographs of about 2 MB,
// downscaled by a browser like in an app, and classified by `vision`'s edge tier.
// Run: node test/bench/downscaling.ts [images]
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import * as ort from "onnxruntime-node";
import { MODELS_FOLDER } from "../../src/cli/local/paths.ts";
import {
  loadDeviceModel,
  type DeviceModelOptions,
  type OrtTensor,
} from "../../src/client/on-device.ts";
import { fromBase64, toBase64 } from "../../src/core/base64.ts";
import { createLazyImageCodecs } from "../../src/runtime/native/image-codecs.ts";
import { createImageDecoder } from "../../src/tasks/image/image-decoder.ts";
import { exportForDevice } from "../../src/toolchain/export/export-device.ts";
import { readProject } from "../../src/toolchain/project.ts";
import { openTestPage } from "../support/browser-page.ts";
import { browserSkipReason } from "../support/chromium.ts";
import { DATASET_SPLITS } from "./lib/dataset-splits.ts";
import { writeBenchReport, roundToFourDigits } from "./lib/report.ts";

const IMAGES = Number(process.argv[2] ?? 200);
const PHOTO_SIDE = 2048;
const SIDES = [1024, 512, 256, 128, 64, 32];
const QUALITY = 0.85;

/** Runs in the page. Camera noise gives the image the size of a photograph. */
const PAGE = `
const toBase64 = async (canvas, quality) => {
  const bytes = new Uint8Array(await (await canvas.convertToBlob({ type: "image/jpeg", quality })).arrayBuffer());
  let text = "";
  for (let at = 0; at < bytes.length; at += 32768) text += String.fromCharCode(...bytes.subarray(at, at + 32768));
  return btoa(text);
};
async function drawn(image, side) {
  const canvas = new OffscreenCanvas(side, side);
  const context = canvas.getContext("2d");
  context.imageSmoothingQuality = "high";
  context.drawImage(image, 0, 0, side, side);
  return { canvas, context };
}
export async function versions(file, photoSide, sides, quality) {
  const image = await createImageBitmap(await (await fetch("data:image/jpeg;base64," + file)).blob());
  const { canvas, context } = await drawn(image, photoSide);
  const pixels = context.getImageData(0, 0, photoSide, photoSide);
  let seed = 1;
  for (let at = 0; at < pixels.data.length; at += 4) {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    const noise = (seed >>> 26) - 32;
    for (let channel = at; channel < at + 3; channel++) pixels.data[channel] += noise;
  }
  context.putImageData(pixels, 0, 0);
  const photo = await toBase64(canvas, 0.9);
  const small = [];
  for (const side of sides) {
    const bitmap = await createImageBitmap(canvas, { resizeWidth: side, resizeHeight: side, resizeQuality: "high" });
    small.push(await toBase64((await drawn(bitmap, side)).canvas, quality));
  }
  return [photo, ...small];
}`;

if (browserSkipReason !== undefined) throw new Error(browserSkipReason);
const folder = (await DATASET_SPLITS["vision"]?.validation()) ?? "";
const labels = (await readdir(folder)).toSorted();
const samples = await Promise.all(
  labels.map(async (label) =>
    (await readdir(join(folder, label)))
      .toSorted()
      .map((name) => ({ label, file: join(folder, label, name) })),
  ),
);
const selectedSamples = Array.from(
  { length: IMAGES },
  (_, index) => samples[index % labels.length]?.[Math.floor(index / labels.length)],
).filter((sample) => sample !== undefined);

const { files } = await exportForDevice(await readProject(join(MODELS_FOLDER, "vision")), null);
const imageDecoder = createImageDecoder({
  modules: createLazyImageCodecs(),
  maxMemoryBytes: 256 * 1024 * 1024,
});
const device = await loadDeviceModel<OrtTensor>({
  ort: ort as unknown as DeviceModelOptions<OrtTensor>["ort"],
  imageDecoder,
  readFile: async (name) => new Uint8Array(files.get(name) ?? []),
});
const tier = device.manifest.tiers[0]?.id;
const predictLabel = async (bytes: Uint8Array<ArrayBuffer>) =>
  (await device.predict(bytes, { maxTier: tier })).outputs[0].label;

const cases = [
  "the original, 32",
  `photograph, ${PHOTO_SIDE}`,
  ...SIDES.map((side) => `downscaled, ${side}`),
];
const sums = cases.map(() => ({ bytes: 0, right: 0, asPhoto: 0, ms: 0 }));
const page = await openTestPage({
  "/page.js": { type: "text/javascript", bytes: new TextEncoder().encode(PAGE) },
});
try {
  for (const { label, file } of selectedSamples) {
    const original = new Uint8Array(await readFile(file));
    const made = (await page.call(
      "/page.js",
      "versions",
      toBase64(original),
      PHOTO_SIDE,
      SIDES,
      QUALITY,
    )) as string[];
    const versions = [original, ...made.map((base64) => fromBase64(base64) ?? new Uint8Array())];
    const found: string[] = [];
    for (const [index, bytes] of versions.entries()) {
      const startedMs = performance.now();
      found.push(await predictLabel(bytes));
      const sum = sums[index];
      if (sum === undefined) continue;
      sum.bytes += bytes.byteLength;
      sum.ms += performance.now() - startedMs;
      sum.right += Number(found[index] === label);
    }
    for (const [index, sum] of sums.entries()) sum.asPhoto += Number(found[index] === found[1]);
  }
} finally {
  await page.close();
}

const rows = cases.map((name, index) => {
  const { bytes = 0, right = 0, asPhoto = 0, ms = 0 } = sums[index] ?? {};
  return {
    case: name,
    n: selectedSamples.length,
    meanBytes: Math.round(bytes / selectedSamples.length),
    accuracy: roundToFourDigits(right / selectedSamples.length),
    sameAsPhotograph: roundToFourDigits(asPhoto / selectedSamples.length),
    decodeAndRunMs: roundToFourDigits(ms / selectedSamples.length),
  };
});
const [, photo] = rows;
const small = rows.find((row) => row.case === "downscaled, 256");
await writeBenchReport({
  name: "downscaling",
  seed: 1,
  n: selectedSamples.length,
  packages: ["onnxruntime-node", "playwright-core"],
  notes: [
    "The photographs are CIFAR-10 images, enlarged, with noise: real ones have more detail, which a model of 32 x 32 pixels does not see either.",
  ],
  rows,
  figures: {
    bytesRatio256: roundToFourDigits((photo?.meanBytes ?? 0) / (small?.meanBytes ?? 1)),
    accuracyLossPoints256: roundToFourDigits(
      100 * ((photo?.accuracy ?? 0) - (small?.accuracy ?? 0)),
    ),
  },
});
