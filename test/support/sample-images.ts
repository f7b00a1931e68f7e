// Sample images: the images of test/fixtures/images.json and their tensors. No imports from Node: suites in workerd use it too.
import { fromBase64 } from "../../src/core/base64.ts";
import { imageClassificationTask } from "../../src/tasks/image-classification.ts";
import type { ImageDecoder, ImagePreprocessorConfig } from "../../src/tasks/image/image.ts";
import fixtures from "../fixtures/images.json" with { type: "json" };

export interface SampleImage {
  readonly name: string;
  readonly file: Uint8Array<ArrayBuffer>;
  readonly width: number;
  readonly height: number;
  /** Pixels decoded by Pillow: red, green and blue of each pixel. */
  readonly referencePixels: Uint8Array;
  /** Pixels resized by Pillow: to 16 x 16, and the largest center crop to 6 x 10. */
  readonly referenceResized:
    | { readonly stretched: Uint8Array; readonly covered: Uint8Array }
    | undefined;
}

interface Entry {
  readonly file: string;
  readonly width: number;
  readonly height: number;
  readonly native: string;
  readonly stretched?: string;
  readonly covered?: string;
}

const bytesOf = (text: string): Uint8Array<ArrayBuffer> => fromBase64(text) ?? new Uint8Array();

export const validImages: readonly SampleImage[] = Object.entries<Entry>(fixtures.taken).map(
  ([name, { file, width, height, native, stretched, covered }]) => ({
    name,
    file: bytesOf(file),
    width,
    height,
    referencePixels: bytesOf(native),
    referenceResized:
      stretched === undefined || covered === undefined
        ? undefined
        : { stretched: bytesOf(stretched), covered: bytesOf(covered) },
  }),
);

export const invalidImages: readonly {
  readonly name: string;
  readonly file: Uint8Array<ArrayBuffer>;
}[] = Object.entries(fixtures.refused).map(([name, file]) => ({ name, file: bytesOf(file) }));

/** @param name name of a valid image */
export function sampleImage(name: keyof typeof fixtures.taken): SampleImage {
  const found = validImages.find((image) => image.name === name);
  if (found === undefined) throw new RangeError(`no image ${name}`);
  return found;
}

export const IMAGE_LIMITS = { maxBytes: 1_000_000, maxPixels: 1_000_000 };
/** Normalization that keeps pixel values: value / 255 / (1 / 255). */
const IDENTITY_PREPROCESSING = {
  kind: "image",
  layout: "NCHW",
  channels: "RGB",
  resize: "bilinear",
  mean: [0, 0, 0],
  std: [1 / 255, 1 / 255, 1 / 255],
} as const;

/** Returns red, green and blue of each pixel, like the input of a graph of that size. @throws the errors of the task */
export function preprocessToPixels(
  images: ImageDecoder,
  file: Uint8Array,
  size: Pick<ImagePreprocessorConfig, "width" | "height" | "fit">,
): Uint8Array {
  const { encode } = imageClassificationTask.createPreprocessor(
    { ...IDENTITY_PREPROCESSING, ...size },
    { imageDecoder: images },
  );
  const { pixels } = encode([imageClassificationTask.decodeInput(file, 0, IMAGE_LIMITS)]);
  if (pixels?.datatype !== "FP32") throw new TypeError("no pixels");
  const area = size.width * size.height;
  return Uint8Array.from({ length: area * 3 }, (_, at) =>
    Math.round(pixels.data[(at % 3) * area + Math.floor(at / 3)] ?? -1),
  );
}

export function maxAbsDifference(one: Uint8Array, other: Uint8Array): number {
  return one.length === other.length
    ? one.reduce((largest, value, at) => Math.max(largest, Math.abs(value - (other[at] ?? 0))), 0)
    : Number.POSITIVE_INFINITY;
}
