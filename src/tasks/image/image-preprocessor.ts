// From image files to the pixels of one graph: decoded, turned, laid on white, resized, normalised.

import { taskErrors } from "../errors.ts";
import type { NamedTensors } from "../../core/tensor.ts";
import type {
  Preprocessor,
  PreprocessorConfig,
  PreprocessorDependencies,
  TaskInput,
} from "../task.ts";
import type { ImageDecoder, ImageInput, ImagePreprocessorConfig, Pixels } from "./image.ts";
import { type CropBox, resizeBilinear } from "./resize-bilinear.ts";
import { orientPixels } from "./oriented-pixels.ts";

/** Name of the FP32 [batch, 3, height, width] input that an image's graph has. */
export const PIXELS_INPUT_NAME = "pixels";

/** @throws preprocessor_invalid for another task's configuration, no_image_decoder */
export function createImagePreprocessor(
  config: PreprocessorConfig,
  { imageDecoder: images }: PreprocessorDependencies = {},
): Preprocessor {
  if (config.kind !== "image")
    throw taskErrors.preprocessorInvalid(config.kind, ["it does not take images"]);
  if (images === undefined) throw taskErrors.noImageDecoder();
  const { width, height } = config;
  const normalised = createNormalizationTable(config);
  return {
    encode(inputs) {
      const data = new Float32Array(inputs.length * 3 * width * height);
      inputs.forEach((input, row) => {
        const resized = decodeAndResize(expectImage(input), config, images);
        writePlanes(
          resized,
          normalised,
          data.subarray(row * resized.length, (row + 1) * resized.length),
        );
      });
      return {
        [PIXELS_INPUT_NAME]: { datatype: "FP32", shape: [inputs.length, 3, height, width], data },
      } satisfies NamedTensors;
    },
  };
}

/** Of an input of a task that takes images. */
export function expectImage(input: TaskInput): ImageInput {
  if (input.kind !== "image")
    throw new TypeError(`an input of kind ${input.kind} where an image must be`);
  return input;
}

/** @returns red, green and blue of each pixel, row by row */
function decodeAndResize(
  image: ImageInput,
  { width, height, fit }: ImagePreprocessorConfig,
  images: ImageDecoder,
): Uint8Array {
  return images.decode(image, (pixels) => {
    if (pixels.channels === 4) compositeOnWhite(pixels);
    const whole = orientPixels(pixels, image.header.orientation);
    return resizeBilinear(
      whole,
      fit === "cover"
        ? centerCrop(whole, width / height)
        : { left: 0, top: 0, width: whole.width, height: whole.height },
      width,
      height,
    );
  });
}

/** The largest part around the centre with this ratio of width to height. */
function centerCrop(
  image: { readonly width: number; readonly height: number },
  ratio: number,
): CropBox {
  const isTooWide = image.width > image.height * ratio;
  const width = isTooWide ? image.height * ratio : image.width;
  const height = isTooWide ? image.height : image.width / ratio;
  return { left: (image.width - width) / 2, top: (image.height - height) / 2, width, height };
}

/** As Pillow pastes: what is transparent becomes white, what is half transparent lies half on it. */
function compositeOnWhite({ data }: Pixels): void {
  for (let at = 0; at < data.length; at += 4) {
    const alpha = data[at + 3] ?? 0;
    if (alpha === 255) continue;
    for (let colour = at; colour < at + 3; colour++) {
      const sum = (data[colour] ?? 0) * alpha + 255 * (255 - alpha) + 128;
      data[colour] = (sum + (sum >> 8)) >> 8;
    }
  }
}

/** What each of the 256 values of a channel becomes: computed in 64 bits, rounded once. */
function createNormalizationTable({ mean, std }: ImagePreprocessorConfig): readonly Float32Array[] {
  return mean.map((offset, channel) =>
    Float32Array.from({ length: 256 }, (_, value) => (value / 255 - offset) / (std[channel] ?? 1)),
  );
}

/** @param planes gets all of red, then green, then blue */
function writePlanes(
  pixels: Uint8Array,
  normalised: readonly Float32Array[],
  planes: Float32Array,
): void {
  const size = pixels.length / 3;
  normalised.forEach((values, channel) => {
    for (let at = channel, to = channel * size; at < pixels.length; at += 3, to++)
      planes[to] = values[pixels[at] ?? 0] ?? 0;
  });
}
