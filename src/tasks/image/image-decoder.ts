// Decodes images in WebAssembly, within a bound of memory.
//
// WebAssembly memory never shrinks, and what is given up stays until V8 collects it: ten photos in a row, each in an instance
// of its own, were three times the memory of one (measured). So an instance is used again, unless it has failed, which leaves
// behind what it held, or is larger than what may be kept. What an image will take is known from its header.

import { taskErrors } from "../errors.ts";
import { reasonOf } from "../../core/errors.ts";
import type { ImageCodec, ImageDecoder, Pixels } from "./image.ts";
import { createJpegCodec } from "./jpeg-codec.ts";
import { createPngCodec } from "./png-codec.ts";

/** WebAssembly that this deployment brings along, compiled. */
export interface ImageCodecModules {
  /** Of @cwasm/jpeg-turbo. */
  readonly jpeg: WebAssembly.Module;
  /** Of @jsquash/png. */
  readonly png: WebAssembly.Module;
}

export interface ImageDecoderOptions {
  readonly modules: ImageCodecModules;
  /** Of memory that decoding one image may take. */
  readonly maxMemoryBytes: number;
  /** Of memory that is kept for the next image; the same by default. */
  readonly retainedMemoryBytes?: number;
}

/** For what a decoder might leak after all. */
const MAX_USES = 1_000;

export function createImageDecoder({
  modules,
  maxMemoryBytes,
  retainedMemoryBytes: keptMemoryBytes = maxMemoryBytes,
}: ImageDecoderOptions): ImageDecoder {
  const codecs = {
    jpeg: createReusableCodec(() => createJpegCodec(modules.jpeg), keptMemoryBytes),
    png: createReusableCodec(() => createPngCodec(modules.png), keptMemoryBytes),
  };
  return {
    decode(image, use) {
      const { format, decodingBytes } = image.header;
      if (decodingBytes > maxMemoryBytes)
        throw taskErrors.imageTooLargeHere(image.index, decodingBytes, maxMemoryBytes);
      const other = codecs[format === "jpeg" ? "png" : "jpeg"];
      if (other.retainedBytes() + decodingBytes > maxMemoryBytes) other.discard();
      return codecs[format].decode(image, use);
    },
  };
}

interface ReusableCodec extends ImageDecoder {
  retainedBytes(): number;
  discard(): void;
}

function createReusableCodec(open: () => ImageCodec, maxKeptBytes: number): ReusableCodec {
  let kept: { readonly codec: ImageCodec; readonly uses: number } | undefined;
  return {
    decode({ bytes, header, index }, use) {
      const { codec, uses } = kept ?? { codec: open(), uses: 0 };
      kept = undefined; // until it has come through this one
      let pixels: Pixels;
      try {
        pixels = codec.decode(bytes, header);
      } catch (error) {
        throw taskErrors.invalidImage(index, reasonOf(error), error);
      }
      const result = use(pixels);
      codec.release();
      if (codec.memoryBytes <= maxKeptBytes && uses + 1 < MAX_USES)
        kept = { codec, uses: uses + 1 };
      return result;
    },
    retainedBytes: () => kept?.codec.memoryBytes ?? 0,
    discard() {
      kept = undefined;
    },
  };
}
