// Image preprocessor: decodes, rotates, composites on white, resizes and normalizes images for one graph.

import type { NamedTensors } from "../../core/tensor.ts";
import { taskErrors } from "../errors.ts";
import type {
  Preprocessor,
  PreprocessorConfig,
  PreprocessorDependencies,
  TaskInput,
} from "../task.ts";
import type { ImageDecoder, ImageInput, ImagePreprocessorConfig, Pixels } from "./image.ts";
import { orientPixels } from "./oriented-pixels.ts";
import { type CropBox, resizeBilinear } from "./resize-bilinear.ts";

/** Name of an image graph's FP32 [batch, 3, height, width] input. */
export const PIXELS_INPUT_NAME = "pixels";

/** @throws preprocessor_invalid for another task's configuration, no_image_decoder */
export function createImagePreprocessor(
  config: PreprocessorConfig,
  { imageDecoder }: PreprocessorDependencies = {},
): Preprocessor {
  if (config.kind !== "image")
    throw taskErrors.preprocessorInvalid(config.kind, ["it does not accept images"]);
  if (imageDecoder === undefined) throw taskErrors.noImageDecoder();
  const { width, height } = config;
  const normalizationTable = createNormalizationTable(config);
  return {
    encode(inputs) {
      const data = new Float32Array(inputs.length * 3 * width * height);
      inputs.forEach((input, row) => {
        const resized = decodeAndResize(expectImage(input), config, imageDecoder);
        writePlanes(
          resized,
          normalizationTable,
          data.subarray(row * resized.length, (row + 1) * resized.length),
        );
      });
      return {
        [PIXELS_INPUT_NAME]: { datatype: "FP32", shape: [inputs.length, 3, height, width], data },
      } satisfies NamedTensors;
    },
  };
}

export function expectImage(input: TaskInput): ImageInput {
  if (input.kind !== "image")
    throw new TypeError(`expected an image input; found an input of kind ${input.kind}`);
  return input;
}

/** @returns red, green and blue of each pixel, row by row */
function decodeAndResize(
  image: ImageInput,
  { width, height, fit }: ImagePreprocessorConfig,
  imageDecoder: ImageDecoder,
): Uint8Array {
  return imageDecoder.decode(image, (pixels) => {
    if (pixels.channels === 4) compositeOnWhite(pixels);
    const oriented = orientPixels(pixels, image.header.orientation);
    return resizeBilinear(
      oriented,
      fit === "cover"
        ? centerCrop(oriented, width / height)
        : { left: 0, top: 0, width: oriented.width, height: oriented.height },
      width,
      height,
    );
  });
}

/** Returns the largest centered crop with the given ratio of width to height. */
function centerCrop(
  image: { readonly width: number; readonly height: number },
  ratio: number,
): CropBox {
  const isTooWide = image.width > image.height * ratio;
  const width = isTooWide ? image.height * ratio : image.width;
  const height = isTooWide ? image.height : image.width / ratio;
  return { left: (image.width - width) / 2, top: (image.height - height) / 2, width, height };
}

/** Composites on white with Pillow's paste arithmetic. */
function compositeOnWhite({ data }: Pixels): void {
  for (let at = 0; at < data.length; at += 4) {
    const alpha = data[at + 3] ?? 0;
    if (alpha === 255) continue;
    for (let channel = at; channel < at + 3; channel++) {
      const sum = (data[channel] ?? 0) * alpha + 255 * (255 - alpha) + 128;
      data[channel] = (sum + (sum >> 8)) >> 8;
    }
  }
}

/** Computes the normalized form of each of the 256 channel values in 64 bits, rounded once. */
function createNormalizationTable({ mean, std }: ImagePreprocessorConfig): readonly Float32Array[] {
  return mean.map((offset, channel) =>
    Float32Array.from({ length: 256 }, (_, value) => (value / 255 - offset) / (std[channel] ?? 1)),
  );
}

/** @param planes receives the red, then the green, then the blue plane */
function writePlanes(
  pixels: Uint8Array,
  normalizationTable: readonly Float32Array[],
  planes: Float32Array,
): void {
  const size = pixels.length / 3;
  normalizationTable.forEach((values, channel) => {
    for (let at = channel, to = channel * size; at < pixels.length; at += 3, to++)
      planes[to] = values[pixels[at] ?? 0] ?? 0;
  });
}
