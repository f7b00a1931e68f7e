// Image types: file headers, pixels, the decoder port, and the preprocessor configuration.

/** EXIF orientation of stored pixels, from 1 (no rotation) to 8. */
export type Orientation = 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8;

export interface ImageHeader {
  readonly format: "jpeg" | "png";
  /** Stored width, before rotation. */
  readonly width: number;
  readonly height: number;
  readonly orientation: Orientation;
  /** Upper bound of the memory for file, pixels and decoder state. */
  readonly decodingBytes: number;
}

/** Creates errors for rejected images. */
export interface ImageErrorFactory {
  /** For a broken image. @param reason as in "cannot be read as an image: <reason>" */
  invalid(reason: string): Error;
  /** For an image of an unsupported kind. @param description as in "is <description>" */
  unsupported(description: string): Error;
}

/** Stored pixels, row by row from the top; the first three bytes of a pixel are red, green and blue. */
export interface Pixels {
  readonly width: number;
  readonly height: number;
  /** Bytes per pixel; the fourth is alpha, not premultiplied. */
  readonly channels: 3 | 4;
  readonly data: Uint8Array;
}

/** A JPEG or PNG file with its parsed header. */
export interface ImageInput {
  readonly kind: "image";
  readonly bytes: Uint8Array;
  readonly header: ImageHeader;
  /** Position of the input in its request, for later error messages. */
  readonly index: number;
}

/** One instance of a decoder. */
export interface ImageCodec {
  /** @throws Error if decoding fails; the instance is then unusable */
  decode(bytes: Uint8Array, header: ImageHeader): Pixels;
  /** Frees the pixels of the last `decode`. */
  release(): void;
  /** Current size of the WebAssembly memory. */
  readonly memoryBytes: number;
}

export interface ImageDecoder {
  /**
   * @param use receives the pixels, which it may modify; they become invalid when it returns
   * @throws invalid_image, image_too_large_here, and the errors of `use`
   */
  decode<Result>(image: ImageInput, use: (pixels: Pixels) => Result): Result;
}

/** Configuration of an image preprocessor; registry/manifest/preprocessors.ts documents the fields. */
export interface ImagePreprocessorConfig {
  readonly kind: "image";
  readonly width: number;
  readonly height: number;
  readonly layout: "NCHW";
  readonly channels: "RGB";
  readonly resize: "bilinear";
  readonly fit: "stretch" | "cover";
  readonly mean: readonly [red: number, green: number, blue: number];
  readonly std: readonly [red: number, green: number, blue: number];
}
