// JPEG files to pixels, by libjpeg-turbo's TurboJPEG API as @cwasm/jpeg-turbo compiles it: what Pillow decodes with, too.
//
// The package's own JavaScript reads its file by Node's API, which a Worker does not have: only the WebAssembly is used.

import type { ImageCodec, ImageHeader } from "./image.ts";

/** The functions of turbojpeg.h that are used; pointers and sizes are numbers of bytes. */
interface TurboJpeg {
  readonly memory: WebAssembly.Memory;
  malloc(size: number): number;
  free(pointer: number): void;
  /** @returns 0 where there is no memory */
  tjInitDecompress(): number;
  /** @param width and those after it get width, height, subsampling and colour space @returns -1 where there is none */
  tjDecompressHeader3(
    handle: number,
    file: number,
    fileSize: number,
    width: number,
    height: number,
    subsampling: number,
    colourSpace: number,
  ): number;
  /** @returns -1 also where the picture is whole and something in the file was odd */
  tjDecompress2(
    handle: number,
    file: number,
    fileSize: number,
    pixels: number,
    width: number,
    pitch: number,
    height: number,
    pixelFormat: number,
    flags: number,
  ): number;
  tjDestroy(handle: number): number;
}

/** TJPF_RGB */
const PIXEL_FORMAT_RGB = 0;
const CHANNELS = 3;

export function createJpegCodec(module: WebAssembly.Module): ImageCodec {
  const { exports } = new WebAssembly.Instance(module, createImports(module));
  const turbo = exports as unknown as TurboJpeg;
  let pixels = 0;

  function allocate(size: number): number {
    const pointer = turbo.malloc(size);
    if (pointer === 0) throw new Error("there is no memory for it");
    return pointer;
  }

  /** The library must see what jpeg-header.ts saw: by that the picture's memory was measured. */
  function checkSize(
    handle: number,
    file: number,
    fileSize: number,
    size: Pick<ImageHeader, "width" | "height">,
  ): void {
    const fields = allocate(4 * Int32Array.BYTES_PER_ELEMENT);
    const status = turbo.tjDecompressHeader3(
      handle,
      file,
      fileSize,
      fields,
      fields + 4,
      fields + 8,
      fields + 12,
    );
    const [width, height] = new Int32Array(turbo.memory.buffer, fields, 2);
    turbo.free(fields);
    if (status !== 0 || width !== size.width || height !== size.height)
      throw new Error("its header is damaged");
  }

  return {
    get memoryBytes() {
      return turbo.memory.buffer.byteLength;
    },

    decode(bytes, { width, height }) {
      const handle = turbo.tjInitDecompress();
      const file = allocate(bytes.byteLength);
      new Uint8Array(turbo.memory.buffer, file, bytes.byteLength).set(bytes);
      checkSize(handle, file, bytes.byteLength, { width, height });
      const size = width * height * CHANNELS;
      pixels = allocate(size);
      new Uint8Array(turbo.memory.buffer, pixels, size).fill(0); // what a file leaves out must not be of the image before
      turbo.tjDecompress2(
        handle,
        file,
        bytes.byteLength,
        pixels,
        width,
        width * CHANNELS,
        height,
        PIXEL_FORMAT_RGB,
        0,
      );
      turbo.tjDestroy(handle);
      turbo.free(file);
      return {
        width,
        height,
        channels: CHANNELS,
        data: new Uint8Array(turbo.memory.buffer, pixels, size),
      };
    },

    release() {
      turbo.free(pixels);
    },
  };
}

/** The library leaves by longjmp where it cannot go on, which WebAssembly has not: an error takes its place, and the instance is given up. */
function createImports(module: WebAssembly.Module): WebAssembly.Imports {
  const quiet = new Set(["setjmp", "environ_sizes_get", "environ_get", "fd_write"]);
  const imports: Record<string, Record<string, WebAssembly.ImportValue>> = {};
  for (const { module: from, name } of WebAssembly.Module.imports(module)) {
    imports[from] ??= {};
    imports[from][name] = quiet.has(name)
      ? () => 0
      : () => {
          throw new Error("its data is damaged");
        };
  }
  return imports;
}
