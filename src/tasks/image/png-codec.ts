// PNG files to pixels, by the Rust crate png as @jsquash/png compiles it.
//
// The package's own JavaScript keeps one instance for ever and copies the pixels out of it: only the WebAssembly is used.

import type { ImageCodec } from "./image.ts";
import { stripAncillaryChunks } from "./png-header.ts";

/** The exports that are used, as wasm-bindgen makes them; pointers and sizes are numbers of bytes. */
interface RustPng {
  readonly memory: WebAssembly.Memory;
  __wbindgen_malloc(size: number, alignment: number): number;
  __wbindgen_free(pointer: number, size: number, alignment: number): void;
  /** Frees the file, and gives the pixels to the import below. */
  decode(file: number, fileSize: number): unknown;
}

/** Where the decoder asks for a JavaScript object that takes its pixels over; a digest follows. */
const TAKE_PIXELS_IMPORT = "__wbg_newwithownedu8clampedarrayandsh_";
/** Where it tells what it cannot go on for. */
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
  const { exports } = new WebAssembly.Instance(module, importsOf(module));
  const png = exports as unknown as RustPng;

  function importsOf(module: WebAssembly.Module): WebAssembly.Imports {
    const imports: Record<string, Record<string, WebAssembly.ImportValue>> = {};
    for (const { module: from, name } of WebAssembly.Module.imports(module)) {
      imports[from] ??= {};
      imports[from][name] = name.startsWith(TAKE_PIXELS_IMPORT)
        ? take
        : name === THROW_IMPORT
          ? fail
          : undo;
    }
    return imports;
  }

  /** @returns the object's number, which nothing asks for again */
  function take(pointer: number, size: number, width: number, height: number): number {
    pixels = { pointer: pointer >>> 0, size: size >>> 0, width: width >>> 0, height: height >>> 0 };
    return 0;
  }

  function fail(): never {
    throw new Error("its data is damaged");
  }

  function undo(): never {
    throw new Error("the decoder asks for what it is not given");
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
