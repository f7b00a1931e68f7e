// Decodes PNG files with the Rust crate png, compiled in @jsquash/png.
//
// EdgeTier uses only the package's WebAssembly, because its JavaScript keeps one instance forever and copies the pixels.

import type { ImageCodec } from "./image.ts";
import { stripAncillaryChunks } from "./png-header.ts";

/** Exports of wasm-bindgen; pointers and sizes are in bytes. */
interface RustPng {
  readonly memory: WebAssembly.Memory;
  __wbindgen_malloc(size: number, alignment: number): number;
  __wbindgen_free(pointer: number, size: number, alignment: number): void;
  /** Frees the file, and passes the pixels to the import `TAKE_PIXELS_IMPORT`. */
  decode(file: number, fileSize: number): unknown;
}

/** Prefix of the import that receives the pixels; a digest follows. */
const TAKE_PIXELS_IMPORT = "__wbg_newwithownedu8clampedarrayandsh_";
/** Import that reports a fatal error. */
const THROW_IMPORT = "__wbindgen_throw";
const CHANNELS = 4;

interface OwnedPixels {
  readonly pointer: number;
  readonly size: number;
  readonly width: number;
  readonly height: number;
}

export function createPngCodec(module: WebAssembly.Module): ImageCodec {
  let pixels: OwnedPixels | undefined;
  const { exports } = new WebAssembly.Instance(module, createImports(module));
  const png = exports as unknown as RustPng;

  function createImports(module: WebAssembly.Module): WebAssembly.Imports {
    const imports: Record<string, Record<string, WebAssembly.ImportValue>> = {};
    for (const { module: from, name } of WebAssembly.Module.imports(module)) {
      imports[from] ??= {};
      imports[from][name] = name.startsWith(TAKE_PIXELS_IMPORT)
        ? takePixels
        : name === THROW_IMPORT
          ? throwDamaged
          : throwUnsupportedImport;
    }
    return imports;
  }

  /** @returns the handle of a JavaScript object, which the decoder never uses */
  function takePixels(pointer: number, size: number, width: number, height: number): number {
    pixels = { pointer: pointer >>> 0, size: size >>> 0, width: width >>> 0, height: height >>> 0 };
    return 0;
  }

  function throwDamaged(): never {
    throw new Error("its data is damaged");
  }

  function throwUnsupportedImport(): never {
    throw new Error("the decoder calls an unsupported import");
  }

  return {
    get memoryBytes() {
      return png.memory.buffer.byteLength;
    },

    decode(bytes, { width, height }) {
      const file = stripAncillaryChunks(bytes);
      const pointer = png.__wbindgen_malloc(file.byteLength, 1) >>> 0;
      new Uint8Array(png.memory.buffer, pointer, file.byteLength).set(file);
      png.decode(pointer, file.byteLength);
      if (
        pixels?.width !== width ||
        pixels.height !== height ||
        pixels.size !== width * height * CHANNELS
      )
        throw new Error("its header is damaged");
      return {
        width,
        height,
        channels: CHANNELS,
        data: new Uint8Array(png.memory.buffer, pixels.pointer, pixels.size),
      };
    },

    release() {
      if (pixels !== undefined) png.__wbindgen_free(pixels.pointer, pixels.size, 1);
      pixels = undefined;
    },
  };
}
