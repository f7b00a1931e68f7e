// The WebAssembly that decodes images (tasks/image/image-decoder.ts), as files of the packages it comes in. The region runs
// the same as the Worker does, so that both make the same pixels of an image.

import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";

/** By image format. */
const CODEC_FILES = {
  jpeg: "@cwasm/jpeg-turbo/jpeg-turbo.wasm",
  png: "@jsquash/png/codec/pkg/squoosh_png_bg.wasm",
} as const;

type ImageFormat = keyof typeof CODEC_FILES;
export type ImageCodecFiles = Readonly<Record<ImageFormat, Uint8Array>>;
export type LazyImageCodecModules = Readonly<Record<ImageFormat, WebAssembly.Module>>;

const resolveCodecPath = (format: ImageFormat) =>
  createRequire(import.meta.url).resolve(CODEC_FILES[format]);

export async function readImageCodecFiles(): Promise<ImageCodecFiles> {
  const [jpeg, png] = await Promise.all([
    readFile(resolveCodecPath("jpeg")),
    readFile(resolveCodecPath("png")),
  ]);
  return { jpeg, png };
}

/** Each compiled when it is asked for first. */
export function createLazyImageCodecs(): LazyImageCodecModules {
  const compiled = new Map<ImageFormat, WebAssembly.Module>();
  const moduleOf = (format: ImageFormat) => {
    const module =
      compiled.get(format) ?? new WebAssembly.Module(readFileSync(resolveCodecPath(format)));
    compiled.set(format, module);
    return module;
  };
  return {
    get jpeg() {
      return moduleOf("jpeg");
    },
    get png() {
      return moduleOf("png");
    },
  };
}
