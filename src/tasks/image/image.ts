// An image as it is handed on: the file with its header, then its pixels; the port by which the one becomes the other; and
// what a graph wants to have made of it.

/** How stored pixels are to be turned, as in EXIF: from 1 (as they are) to 8. */
export type Orientation = 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8;

export interface ImageHeader {
  readonly format: "jpeg" | "png";
  /** As stored: before it is turned. */
  readonly width: number;
  readonly height: number;
  readonly orientation: Orientation;
  /** Of the file, its pixels, and what their decoder holds beside them, at most. */
  readonly decodingBytes: number;
}

/** Makes the error for an image that is not taken. */
export interface ImageErrorFactory {
  /** For what is broken. @param reason as in "cannot be read as an image: <reason>" */
  invalid(reason: string): Error;
  /** For what is merely of another kind. @param what as in "is <what>" */
  unsupported(what: string): Error;
}

/** As stored, row by row from the top; the first three bytes of a pixel are red, green and blue. */
export interface Pixels {
  readonly width: number;
  readonly height: number;
  /** Bytes of a pixel; the fourth is alpha, not premultiplied. */
  readonly channels: 3 | 4;
  readonly data: Uint8Array;
}

/** A JPEG or PNG file of which only the header has been read. */
export interface ImageInput {
  readonly kind: "image";
  readonly bytes: Uint8Array;
  readonly header: ImageHeader;
  /** Of the input in its request, for messages about what is found later. */
  readonly index: number;
}

/** One instance of a decoder. */
export interface ImageCodec {
  /** @throws Error for what cannot be decoded; the instance is then of no use any more */
  decode(bytes: Uint8Array, header: ImageHeader): Pixels;
  /** Frees the pixels of the last `decode`. */
  release(): void;
  /** Of WebAssembly memory. */
  readonly memoryBytes: number;
}

export interface ImageDecoder {
  /**
   * @param use is given the pixels, which are gone when it returns; it may change them
   * @throws invalid_image, image_too_large_here, and what `use` throws
   */
  decode<Result>(image: ImageInput, use: (pixels: Pixels) => Result): Result;
}

/** As in the manifest, which says what each field does. */
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
