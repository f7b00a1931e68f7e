// Decodes images in WebAssembly, within a memory limit.
//
// WebAssembly memory never shrinks, and a discarded instance stays in memory until V8 collects it. Ten photos in separate
// instances took three times the memory of one (measured). Instances are therefore reused. The decoder discards an
// instance that failed, because it leaks, and one that exceeds the retained size. An image's header determines the
// memory that decoding requires.

import { reasonOf } from "../../core/errors.ts";
import { taskErrors } from "../errors.ts";
import type { ImageCodec, ImageDecoder, Pixels } from "./image.ts";
import { createJpegCodec } from "./jpeg-codec.ts";
import { createPngCodec } from "./png-codec.ts";

/** Compiled WebAssembly modules of the deployment. */
export interface ImageCodecModules {
  /** From the package @cwasm/jpeg-turbo. */
  readonly jpeg: WebAssembly.Module;
  /** From the package @jsquash/png. */
  readonly png: WebAssembly.Module;
}

export interface ImageDecoderOptions {
  readonly modules: ImageCodecModules;
  /** Memory limit for decoding one image. */
  readonly maxMemoryBytes: number;
  /** Memory limit of an instance that is kept for the next image; defaults to `maxMemoryBytes`. */
  readonly retainedMemoryBytes?: number;
}

/** Limits the uses of an instance, in case a codec leaks. */
const MAX_USES = 1_000;

export function createImageDecoder({
  modules,
  maxMemoryBytes,
  retainedMemoryBytes = maxMemoryBytes,
}: ImageDecoderOptions): ImageDecoder {
  const codecs = {
    jpeg: createReusableCodec(() => createJpegCodec(modules.jpeg), retainedMemoryBytes),
    png: createReusableCodec(() => createPngCodec(modules.png), retainedMemoryBytes),
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

function createReusableCodec(open: () => ImageCodec, maxRetainedBytes: number): ReusableCodec {
  let retained: { readonly codec: ImageCodec; readonly uses: number } | undefined;
  return {
    decode({ bytes, header, index }, use) {
      const { codec, uses } = retained ?? { codec: open(), uses: 0 };
      retained = undefined; // retained again only after success
      let pixels: Pixels;
      try {
        pixels = codec.decode(bytes, header);
      } catch (error) {
        throw taskErrors.invalidImage(index, reasonOf(error), error);
      }
      const result = use(pixels);
      codec.release();
      if (codec.memoryBytes <= maxRetainedBytes && uses + 1 < MAX_USES)
        retained = { codec, uses: uses + 1 };
      return result;
    },
    retainedBytes: () => retained?.codec.memoryBytes ?? 0,
    discard() {
      retained = undefined;
    },
  };
}
