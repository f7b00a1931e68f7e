// Contract of the task image-classification on every platform: Pillow's pixels, or an error.
/* oxlint-disable max-lines-per-function -- a contract is one suite, whose cases share the fixture of a driver */
import { describe, expect, it } from "vitest";
import { EdgeTierError } from "../../src/core/errors.ts";
import { imageClassificationTask } from "../../src/tasks/image-classification.ts";
import { createImageDecoder, type ImageCodecModules } from "../../src/tasks/image/image-decoder.ts";
import type { ImageDecoder } from "../../src/tasks/image/image.ts";
import { seededRandom } from "../../src/toolchain/seeded-random.ts";
import {
  maxAbsDifference,
  IMAGE_LIMITS,
  preprocessToPixels,
  invalidImages,
  sampleImage,
  validImages,
} from "../support/sample-images.ts";

const MAX_MEMORY_BYTES = 32_000_000;
const MUTATIONS = 1_500;
const SEED = 20_261_121;

export function imageClassificationContract(where: string, modules: ImageCodecModules): void {
  const images = createImageDecoder({ modules, maxMemoryBytes: MAX_MEMORY_BYTES });
  const decodeAtOwnSize = (file: Uint8Array, { width, height } = sampleImage("jpeg")) =>
    preprocessToPixels(images, file, { width, height, fit: "stretch" });

  describe(`image classification, ${where}`, () => {
    it.each(validImages)(
      "decodes like Pillow: $name",
      ({ file, width, height, referencePixels }) => {
        expect(
          maxAbsDifference(
            preprocessToPixels(images, file, { width, height, fit: "stretch" }),
            referencePixels,
          ),
        ).toBe(0);
      },
    );

    it.each(validImages.filter(({ referenceResized }) => referenceResized !== undefined))(
      "resizes like Pillow: $name",
      ({ file, referenceResized }) => {
        expect(
          maxAbsDifference(
            preprocessToPixels(images, file, { width: 16, height: 16, fit: "stretch" }),
            referenceResized?.stretched ?? new Uint8Array(),
          ),
        ).toBe(0);
        expect(
          maxAbsDifference(
            preprocessToPixels(images, file, { width: 6, height: 10, fit: "cover" }),
            referenceResized?.covered ?? new Uint8Array(),
          ),
        ).toBe(0);
      },
    );

    it("normalizes each channel of a batch into separate planes", () => {
      const config = {
        kind: "image",
        width: 1,
        height: 1,
        layout: "NCHW",
        channels: "RGB",
        resize: "bilinear",
        fit: "stretch",
        mean: [0.4914, 0.4822, 0.4465],
        std: [0.247, 0.2435, 0.2616],
      } as const;
      const { encode } = imageClassificationTask.createPreprocessor(config, {
        imageDecoder: images,
      });
      const files = [sampleImage("png, 1 x 1"), sampleImage("jpeg, progressive, 1 x 1")];
      const { pixels } = encode(
        files.map(({ file }, index) =>
          imageClassificationTask.decodeInput(file, index, IMAGE_LIMITS),
        ),
      );
      const expected = files.flatMap(({ referencePixels }) =>
        Array.from(referencePixels, (value, channel) =>
          Math.fround((value / 255 - (config.mean[channel] ?? 0)) / (config.std[channel] ?? 0)),
        ),
      );
      expect(pixels).toEqual({
        datatype: "FP32",
        shape: [2, 3, 1, 1],
        data: Float32Array.from(expected),
      });
    });

    it("accepts its own example", () => {
      expect(
        preprocessToPixels(
          images,
          imageClassificationTask.encodeInput(imageClassificationTask.exampleInput),
          {
            width: 1,
            height: 1,
            fit: "stretch",
          },
        ),
      ).toEqual(Uint8Array.of(128, 128, 128));
    });

    it.each(invalidImages)("rejects a named format: $name", ({ file }) => {
      expect(() => imageClassificationTask.decodeInput(file, 3, IMAGE_LIMITS)).toThrow(
        expect.objectContaining({
          code: "unsupported_image",
          status: 415,
          detail: expect.stringMatching(/^Input 3 is an? .*(CMYK|GIF|WebP|BMP|TIFF|animated PNG)/),
        }),
      );
    });

    it("rejects an image beyond the memory limit before decoding", () => {
      const { file } = sampleImage("jpeg, larger");
      const small = createImageDecoder({ modules, maxMemoryBytes: 1_000_000 });
      expect(() =>
        preprocessToPixels(small, file, { width: 2, height: 2, fit: "stretch" }),
      ).toThrow(expect.objectContaining({ code: "image_too_large_here", status: 413 }));
    });

    it("reports missing decoders", () => {
      const config = {
        kind: "image",
        width: 1,
        height: 1,
        layout: "NCHW",
        channels: "RGB",
        resize: "bilinear",
        fit: "stretch",
        mean: [0, 0, 0],
        std: [1, 1, 1],
      } as const;
      expect(() => imageClassificationTask.createPreprocessor(config)).toThrow(
        expect.objectContaining({ code: "no_image_decoder" }),
      );
    });

    it("accepts or rejects damaged images, and decodes later images correctly", () => {
      const expected = decodeAtOwnSize(sampleImage("jpeg").file);
      const random = seededRandom(SEED);
      const outcomes = { accepted: 0, rejected: 0 };
      const between: Uint8Array[] = [];
      for (let count = 0; count < MUTATIONS; count++) {
        const { file, width, height } =
          validImages[Math.floor(random() * validImages.length)] ?? sampleImage("png");
        outcomes[decodeOutcome(images, mutateBytes(file, random), { width, height })]++;
        if (count % 100 === 99) between.push(decodeAtOwnSize(sampleImage("jpeg").file));
      }
      expect(between).toEqual(between.map(() => expected));
      expect(outcomes.accepted).toBeGreaterThan(50);
      expect(outcomes.rejected).toBeGreaterThan(50);
    });
  });
}

/** @throws any error that is not a client error */
function decodeOutcome(
  images: ImageDecoder,
  file: Uint8Array,
  size: { readonly width: number; readonly height: number },
): "accepted" | "rejected" {
  try {
    preprocessToPixels(images, file, { ...size, fit: "stretch" });
    return "accepted";
  } catch (error) {
    if (error instanceof EdgeTierError && error.status >= 400 && error.status < 500)
      return "rejected";
    throw error;
  }
}

/** Changes one to three bytes, most of them after the magic number, or truncates the file. */
function mutateBytes(file: Uint8Array, random: () => number): Uint8Array {
  if (random() < 0.1) return file.slice(0, Math.floor(random() * file.length));
  const changed = file.slice();
  for (let changes = 1 + Math.floor(random() * 3); changes > 0; changes--)
    changed[Math.floor(random() * file.length)] = Math.floor(random() * 256);
  return changed;
}
