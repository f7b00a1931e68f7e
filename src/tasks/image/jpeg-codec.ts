// Decodes JPEG files with libjpeg-turbo, which Pillow also uses, through its TurboJPEG API in @cwasm/jpeg-turbo.
//
// EdgeTier uses only the package's WebAssembly, because its JavaScript reads files with Node's API, which Workers lack.

import type { ImageCodec, ImageHeader } from "./image.ts";

/** Functions of turbojpeg.h; pointers and sizes are in bytes. */
interface TurboJpeg {
  readonly memory: WebAssembly.Memory;
  malloc(size: number): number;
  free(pointer: number): void;
  /** @returns 0 if it is out of memory */
  tjInitDecompress(): number;
  /** @param width pointer that receives the width, as do the following parameters @returns -1 for an invalid header */
  tjDecompressHeader3(
    handle: number,
    file: number,
    fileSize: number,
    width: number,
    height: number,
    subsampling: number,
    colorSpace: number,
  ): number;
  /** @returns -1 for errors, but also for warnings about a complete picture */
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

/** Value of TJPF_RGB. */
const PIXEL_FORMAT_RGB = 0;
const CHANNELS = 3;

export function createJpegCodec(module: WebAssembly.Module): ImageCodec {
  const { exports } = new WebAssembly.Instance(module, createImports(module));
  const turbo = exports as unknown as TurboJpeg;
  let pixels = 0;

  return {
    get memoryBytes() {
      return turbo.memory.buffer.byteLength;
    },

    decode(bytes, { width, height }) {
      const handle = turbo.tjInitDecompress();
      const file = allocate(turbo, bytes.byteLength);
      new Uint8Array(turbo.memory.buffer, file, bytes.byteLength).set(bytes);
      checkSize(turbo, handle, file, bytes.byteLength, { width, height });
      const size = width * height * CHANNELS;
      pixels = allocate(turbo, size);
      // Pixels that a file omits must not show the previous image.
      new Uint8Array(turbo.memory.buffer, pixels, size).fill(0);
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

function allocate(turbo: TurboJpeg, size: number): number {
  const pointer = turbo.malloc(size);
  if (pointer === 0) throw new Error("it is out of memory");
  return pointer;
}

/** Checks that the library reads the same size as jpeg-header.ts, because that size determined the memory limit. */
function checkSize(
  turbo: TurboJpeg,
  handle: number,
  file: number,
  fileSize: number,
  size: Pick<ImageHeader, "width" | "height">,
): void {
  const fields = allocate(turbo, 4 * Int32Array.BYTES_PER_ELEMENT);
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

/**
 * Creates the imports. On a fatal error the library calls longjmp, which WebAssembly lacks. The import throws instead,
 * and the instance is then discarded.
 */
function createImports(module: WebAssembly.Module): WebAssembly.Imports {
  const ignored = new Set(["setjmp", "environ_sizes_get", "environ_get", "fd_write"]);
  const imports: Record<string, Record<string, WebAssembly.ImportValue>> = {};
  for (const { module: from, name } of WebAssembly.Module.imports(module)) {
    imports[from] ??= {};
    imports[from][name] = ignored.has(name)
      ? () => 0
      : () => {
          throw new Error("its data is damaged");
        };
  }
  return imports;
}
