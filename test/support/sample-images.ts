// The images of test/fixtures/images.json, and what makes tensors of them. No imports from Node: suites in workerd use it too.
import { fromBase64 } from "../../src/core/base64.ts";
import { imageClassificationTask } from "../../src/tasks/image-classification.ts";
import type { ImageDecoder, ImagePreprocessorConfig } from "../../src/tasks/image/image.ts";
import fixtures from "../fixtures/images.json" with { type: "json" };

export interface SampleImage {
  readonly name: string;
  readonly file: Uint8Array<ArrayBuffer>;
  readonly width: number;
  readonly height: number;
  /** Pillow's pixels: red, green and blue of each. */
  readonly referencePixels: Uint8Array;
  /** Pillow's pixels at 16 x 16, and of the largest center crop at 6 x 10. */
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

/** @param name of one that is taken */
export function sampleImage(name: keyof typeof fixtures.taken): SampleImage {
  const found = validImages.find((image) => image.name === name);
  if (found === undefined) throw new RangeError(`no image ${name}`);
  return found;
}

export const IMAGE_LIMITS = { maxBytes: 1_000_000, maxPixels: 1_000_000 };
/** The pixels themselves: value / 255 / (1 / 255). */
const IDENTITY_PREPROCESSING = {
  kind: "image",
  layout: "NCHW",
  channels: "RGB",
  resize: "bilinear",
  mean: [0, 0, 0],
  std: [1 / 255, 1 / 255, 1 / 255],
} as const;

/** Red, green and blue of each pixel, as a graph of that size would get them. @throws what the task throws */
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
