// Tests the image task in Node, as a region runs it; test/edge/images.test.ts tests it inside workerd.
import { describe, expect, it } from "vitest";
import { createNoisePng } from "../../../src/cli/doctor/noise-png.ts";
import { toBase64 } from "../../../src/core/base64.ts";
import { createLazyImageCodecs } from "../../../src/runtime/native/image-codecs.ts";
import { imageClassificationTask as task } from "../../../src/tasks/image-classification.ts";
import {
  createImageDecoder,
  type ImageDecoderOptions,
} from "../../../src/tasks/image/image-decoder.ts";
import { expectImage } from "../../../src/tasks/image/image-preprocessor.ts";
import type { ImageInput } from "../../../src/tasks/image/image.ts";
import { createJpegCodec } from "../../../src/tasks/image/jpeg-codec.ts";
import { createPngCodec } from "../../../src/tasks/image/png-codec.ts";
import { resizeBilinear } from "../../../src/tasks/image/resize-bilinear.ts";
import { getTask } from "../../../src/tasks/tasks.ts";
import { seededRandom } from "../../../src/toolchain/seeded-random.ts";
import { imageClassificationContract } from "../../contract/image-classification.ts";
import { IMAGE_LIMITS, preprocessToPixels, sampleImage } from "../../support/sample-images.ts";

imageClassificationContract("in Node", createLazyImageCodecs());

const { file } = sampleImage("jpeg");
const errorWithCode = (code: string, detail = /\S/) =>
  expect.objectContaining({ code, detail: expect.stringMatching(detail) });

describe("an input", () => {
  it("is a base64 image, or its bytes", async () => {
    expect(getTask("image-classification")).toBe(task);
    const input = task.parseInput({ b64: toBase64(file) }, 1, IMAGE_LIMITS);
    expect(input).toEqual(task.decodeInput(file, 1, IMAGE_LIMITS));
    expect(task.encodeInput(input)).toEqual(file);
    expect(input).toMatchObject({ kind: "image", index: 1, header: { width: 18, height: 11 } });
  });

  it("is identified by its bytes alone", async () => {
    const [identity, copyIdentity, otherIdentity] = await Promise.all(
      [
        task.decodeInput(file, 0, IMAGE_LIMITS),
        task.decodeInput(file.slice(), 1, IMAGE_LIMITS),
        task.decodeInput(sampleImage("png").file, 0, IMAGE_LIMITS),
      ].map(task.computeIdentity),
    );
    expect(identity).toMatch(/^[0-9a-f]{64}$/);
    expect(copyIdentity).toBe(identity);
    expect(otherIdentity).not.toBe(identity);
  });

  it.each([
    ["yes", "a string"],
    [7, "a number"],
    [null, "null"],
    [["x"], "an array"],
    [{}, "an object"],
    [{ b64: 7 }, "an object"],
  ])("is not %j", (raw, found) => {
    expect(() => task.parseInput(raw, 4, IMAGE_LIMITS)).toThrow(
      errorWithCode("invalid_request", new RegExp(`\`inputs\\[4\\]\` is ${found};`)),
    );
  });
});

describe("the image task", () => {
  it("enforces its limits, to the byte and to the pixel", () => {
    const parse = (limits: object) =>
      task.parseInput({ b64: toBase64(file) }, 0, { ...IMAGE_LIMITS, ...limits });
    expect(parse({ maxBytes: file.length, maxPixels: 18 * 11 })).toMatchObject({ kind: "image" });
    expect(() => parse({ maxBytes: file.length - 1 })).toThrow(errorWithCode("input_too_large"));
    expect(() => parse({ maxPixels: 18 * 11 - 1 })).toThrow(
      errorWithCode("image_too_large", /\b18 x 11\b.*\b197\b/),
    );
    expect(() =>
      task.parseInput({ b64: "A".repeat(1_000) }, 0, { ...IMAGE_LIMITS, maxBytes: 100 }),
    ).toThrow(errorWithCode("input_too_large", /\b748\b/));
    expect(() => task.parseInput({ b64: "%" }, 0, IMAGE_LIMITS)).toThrow(
      errorWithCode("invalid_request", /base64/),
    );
  });

  it("rejects preprocessors of texts, and the text task rejects those of images", () => {
    const artifact = new Uint8Array();
    expect(() => task.createPreprocessor({ kind: "hashed-ngrams", artifact })).toThrow(
      errorWithCode("preprocessor_invalid", /hashed-ngrams/),
    );
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
    expect(() => getTask("text-classification").createPreprocessor(config)).toThrow(
      errorWithCode("preprocessor_invalid", /image/),
    );
  });
});

const modules = createLazyImageCodecs();

/** Creates a decoder that records the codecs it opens. */
function createRecordingDecoder(options: Omit<ImageDecoderOptions, "modules">) {
  const opened: string[] = [];
  const recordingModules = {
    get jpeg() {
      opened.push("jpeg");
      return modules.jpeg;
    },
    get png() {
      opened.push("png");
      return modules.png;
    },
  };
  return { opened, images: createImageDecoder({ modules: recordingModules, ...options }) };
}

describe("the decoders", () => {
  it("are reused until one fails, or exceeds the retained size", () => {
    const { opened, images } = createRecordingDecoder({
      maxMemoryBytes: 200_000_000,
      retainedMemoryBytes: 16_000_000,
    });
    const decode = (bytes: Uint8Array) =>
      preprocessToPixels(images, bytes, { width: 4, height: 4, fit: "stretch" });
    for (let count = 0; count < 20; count++) decode(file);
    expect(opened).toEqual(["jpeg"]);
    decode(sampleImage("png").file);
    expect(opened).toEqual(["jpeg", "png"]);
    const damaged = sampleImage("png").file.slice();
    damaged.fill(0xff, 41, 60);
    expect(() => decode(damaged)).toThrow(errorWithCode("invalid_image"));
    decode(sampleImage("png").file);
    expect(opened).toEqual(["jpeg", "png", "png"]);
    images.decode(createLargeImage(), () => {});
    decode(file);
    expect(opened).toEqual(["jpeg", "png", "png", "jpeg"]);
  });

  it("hold together at most the memory limit of one image", () => {
    const { opened, images } = createRecordingDecoder({ maxMemoryBytes: 30_000_000 });
    const decode = (bytes: Uint8Array) =>
      preprocessToPixels(images, bytes, { width: 4, height: 4, fit: "stretch" });
    for (let count = 0; count < 3; count++) images.decode(createLargeImage(), () => {});
    decode(sampleImage("png").file);
    decode(file);
    expect(opened).toEqual(["jpeg", "png"]); // both fit
    images.decode(createLargeImage(), () => {});
    expect(opened).toEqual(["jpeg", "png"]);
    decode(sampleImage("png").file);
    expect(opened).toEqual(["jpeg", "png"]);
  });

  it("use at most the memory that the header predicts, also when reused", () => {
    const noise = expectImage(
      task.decodeInput(createNoisePng(700, 600, seededRandom(1)), 0, { maxBytes: 2_000_000 }),
    );
    for (const { bytes, header } of [createLargeImage(), noise]) {
      const codec =
        header.format === "jpeg" ? createJpegCodec(modules.jpeg) : createPngCodec(modules.png);
      for (let count = 0; count < 5; count++) {
        codec.decode(bytes, header);
        codec.release();
      }
      expect(codec.memoryBytes).toBeGreaterThan(header.width * header.height * 3);
      expect(codec.memoryBytes).toBeLessThanOrEqual(header.decodingBytes);
    }
  });
});

describe("decode", () => {
  it("continues after the caller's function has thrown", () => {
    const images = createImageDecoder({ modules, maxMemoryBytes: 200_000_000 });
    const input = expectImage(task.decodeInput(file, 0, IMAGE_LIMITS));
    const fail = () =>
      images.decode(input, () => {
        throw new RangeError("from the caller");
      });
    expect(fail).toThrow(new RangeError("from the caller"));
    expect(images.decode(input, ({ width, height }) => ({ width, height }))).toEqual({
      width: 18,
      height: 11,
    });
  });
});

/** Changes the sample's header to 8 megapixels; pixels without data stay gray. */
function createLargeImage(): ImageInput {
  const data = file.slice();
  const at = data.findIndex((byte, index) => byte === 0xff && data[index + 1] === 0xc0);
  new DataView(data.buffer).setUint16(at + 5, 2_000);
  new DataView(data.buffer).setUint16(at + 7, 4_000);
  return expectImage(task.decodeInput(data, 0, { maxBytes: 1_000_000, maxPixels: 8_000_000 }));
}

describe("resizing", () => {
  it("keeps a plain color at any size", () => {
    for (const [width, height] of [
      [1, 1],
      [3, 500],
      [640, 2],
    ] as const) {
      const data = Uint8Array.from(
        { length: width * height * 3 },
        (_, at) => [255, 0, 77][at % 3] ?? 0,
      );
      const image = { data, width, height, origin: 0, stepX: 3, stepY: width * 3 };
      expect(resizeBilinear(image, { left: 0, top: 0, width, height }, 2, 3)).toEqual(
        Uint8Array.from({ length: 18 }, (_, at) => [255, 0, 77][at % 3] ?? 0),
      );
    }
  });
});
