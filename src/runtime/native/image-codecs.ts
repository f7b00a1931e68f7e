// The WebAssembly that decodes images (tasks/image/image-decoder.ts), as files of the packages it comes in. The region runs
// the same as the Worker does, so that both make the same pixels of an image.

import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";

/** By image format. */
const FILES = {
  jpeg: "@cwasm/jpeg-turbo/jpeg-turbo.wasm",
  png: "@jsquash/png/codec/pkg/squoosh_png_bg.wasm",
} as const;

type Format = keyof typeof FILES;
export type ImageCodecFiles = Readonly<Record<Format, Uint8Array>>;
export type ImageCodecModules = Readonly<Record<Format, WebAssembly.Module>>;

const pathOf = (format: Format) => createRequire(import.meta.url).resolve(FILES[format]);

export async function readImageCodecs(): Promise<ImageCodecFiles> {
  const [jpeg, png] = await Promise.all([readFile(pathOf("jpeg")), readFile(pathOf("png"))]);
  return { jpeg, png };
}

/** Each compiled when it is asked for first. */
export function nodeImageCodecs(): ImageCodecModules {
  const compiled = new Map<Format, WebAssembly.Module>();
  const moduleOf = (format: Format) => {
    const module = compiled.get(format) ?? new WebAssembly.Module(readFileSync(pathOf(format)));
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
