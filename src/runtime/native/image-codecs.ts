// Loads the WebAssembly image codecs for tasks/image/image-decoder.ts from their npm packages. Region and Worker use the
// same codecs, so both decode an image to the same pixels.

import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";

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

/** Creates codec modules that are compiled on first access. */
export function createLazyImageCodecs(): LazyImageCodecModules {
  const compiled = new Map<ImageFormat, WebAssembly.Module>();
  const compileOnce = (format: ImageFormat) => {
    const module =
      compiled.get(format) ?? new WebAssembly.Module(readFileSync(resolveCodecPath(format)));
    compiled.set(format, module);
    return module;
  };
  return {
    get jpeg() {
      return compileOnce("jpeg");
    },
    get png() {
      return compileOnce("png");
    },
  };
}
