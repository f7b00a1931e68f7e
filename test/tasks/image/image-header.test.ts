// Tests image headers. This file exceeds 300 lines because of its table of invalid files.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { concatBytes } from "../../../src/core/bytes.ts";
import { EdgeTierError } from "../../../src/core/errors.ts";
import { detectImageFormat, parseImageHeader } from "../../../src/tasks/image/image-header.ts";
import { stripAncillaryChunks } from "../../../src/tasks/image/png-header.ts";
import { propertyRuns } from "../../support/property-runs.ts";
import { sampleImage, validImages } from "../../support/sample-images.ts";

const ascii = (text: string) => Uint8Array.from(text, (character) => character.charCodeAt(0));
const jpeg = (...parts: readonly Uint8Array[]) =>
  concatBytes([Uint8Array.of(0xff, 0xd8), ...parts]);
const segment = (marker: number, ...data: readonly number[]) =>
  Uint8Array.of(0xff, marker, (data.length + 2) >> 8, (data.length + 2) & 255, ...data);
const frame = (width: number, height: number, { marker = 0xc0, bits = 8, components = 3 } = {}) =>
  segment(
    marker,
    bits,
    height >> 8,
    height & 255,
    width >> 8,
    width & 255,
    components,
    ...Array.from({ length: components }, (_, index) => [index + 1, 0x11, 0]).flat(),
  );
const scan = (components = 3) =>
  concatBytes([
    segment(0xda, components, ...Array.from({ length: components * 2 + 3 }, () => 0)),
    Uint8Array.of(1, 2, 0xff, 0, 3, 0xff, 0xd0, 4),
  ]);
const END = Uint8Array.of(0xff, 0xd9);

const SIGNATURE = Uint8Array.of(0x89, 0x50, 0x4e, 0x47, 13, 10, 26, 10);
function chunk(name: string, ...data: readonly number[]): Uint8Array {
  const length = new Uint8Array(4);
  new DataView(length.buffer).setUint32(0, data.length);
  return concatBytes([length, ascii(name), Uint8Array.from(data), new Uint8Array(4)]);
}
const u32 = (value: number) => [24, 16, 8, 0].map((shift) => (value / 2 ** shift) & 255);
const ihdr = (
  width: number,
  height: number,
  depth = 8,
  colorType = 2,
  ...rest: readonly number[]
) =>
  chunk(
    "IHDR",
    ...u32(width),
    ...u32(height),
    depth,
    colorType,
    ...[0, 0, 0].map((value, index) => rest[index] ?? value),
  );
const png = (...chunks: readonly Uint8Array[]) =>
  concatBytes([SIGNATURE, ...chunks, chunk("IEND")]);

/** Broken and unsupported files, with the code and a keyword of the reason, because many reasons share one code. */
const invalidImages: [description: string, file: Uint8Array, code: string, reason: RegExp][] = [
  ["an empty file", new Uint8Array(), "invalid_image", /empty/],
  ["a text", ascii("hello"), "invalid_image", /signature/],
  [
    "a JPEG 2000",
    Uint8Array.of(0, 0, 0, 12, ...ascii("jP  \r\n")),
    "unsupported_image",
    /a JPEG 2000/,
  ],
  ["an AVIF", Uint8Array.of(0, 0, 0, 28, ...ascii("ftypavif")), "unsupported_image", /AVIF/],
  ["a JPEG of three bytes", Uint8Array.of(0xff, 0xd8, 0xff), "invalid_image", /truncated/],
  ["a JPEG without its end", jpeg(frame(4, 4), scan()), "invalid_image", /truncated/],
  ["a JPEG without a picture", jpeg(frame(4, 4), END), "invalid_image", /no picture/],
  ["a JPEG without a size", jpeg(scan(), END), "invalid_image", /precedes/],
  [
    "a JPEG with two sizes",
    jpeg(frame(4, 4), frame(4_000, 4_000), scan(), END),
    "invalid_image",
    /two frame headers/,
  ],
  [
    "a JPEG in a JPEG",
    jpeg(Uint8Array.of(0xff, 0xd8), frame(4, 4), scan(), END),
    "invalid_image",
    /second/,
  ],
  ["a JPEG without a width", jpeg(frame(0, 4), scan(), END), "invalid_image", /0 x 4/],
  ["a JPEG without a height", jpeg(frame(4, 0), scan(), END), "invalid_image", /4 x 0/],
  [
    "a JPEG of 12 bits",
    jpeg(frame(4, 4, { bits: 12, marker: 0xc1 }), scan(), END),
    "unsupported_image",
    /12 bits/,
  ],
  [
    "a JPEG of two components",
    jpeg(frame(4, 4, { components: 2 }), scan(), END),
    "unsupported_image",
    /2 components/,
  ],
  [
    "a lossless JPEG",
    jpeg(frame(4, 4, { marker: 0xc3 }), scan(), END),
    "unsupported_image",
    /lossless/,
  ],
  [
    "an arithmetically coded JPEG",
    jpeg(frame(4, 4, { marker: 0xc9 }), scan(), END),
    "unsupported_image",
    /arithmetic/,
  ],
  [
    "a JPEG of many scans",
    jpeg(frame(4, 4, { marker: 0xc2 }), ...Array.from({ length: 65 }, () => scan()), END),
    "unsupported_image",
    /64 scans/,
  ],
  [
    "a JPEG of many segments",
    jpeg(...Array.from({ length: 65_537 }, () => segment(0xfe)), frame(4, 4), scan(), END),
    "unsupported_image",
    /segments/,
  ],
  [
    "a segment that is longer than the file",
    jpeg(Uint8Array.of(0xff, 0xfe, 0xff, 0xff, 0)),
    "invalid_image",
    /truncated/,
  ],
  [
    "a segment without a length",
    jpeg(Uint8Array.of(0xff, 0xfe, 0, 1), END),
    "invalid_image",
    /without a length/,
  ],
  [
    "a JPEG with invalid sampling factors",
    jpeg(segment(0xc0, 8, 0, 4, 0, 4, 1, 1, 0, 0), scan(1), END),
    "invalid_image",
    /sampling/,
  ],
  [
    "a PNG without its end",
    concatBytes([SIGNATURE, ihdr(4, 4), chunk("IDAT", 1)]),
    "invalid_image",
    /truncated/,
  ],
  ["a PNG without a picture", png(ihdr(4, 4)), "invalid_image", /no picture/],
  ["a PNG without a size", png(chunk("IDAT", 1)), "invalid_image", /IHDR/],
  [
    "a PNG with two sizes",
    png(ihdr(4, 4), ihdr(4_000, 4_000), chunk("IDAT", 1)),
    "invalid_image",
    /IHDR/,
  ],
  ["a PNG without a width", png(ihdr(0, 4), chunk("IDAT", 1)), "invalid_image", /0 x 4/],
  [
    "a PNG with an invalid width",
    png(ihdr(2 ** 31, 4), chunk("IDAT", 1)),
    "invalid_image",
    /2147483648 x 4/,
  ],
  [
    "a PNG of 3 bits",
    png(ihdr(4, 4, 3, 0), chunk("IDAT", 1)),
    "invalid_image",
    /type 0 with 3 bits/,
  ],
  [
    "a PNG with an unknown interlace method",
    png(ihdr(4, 4, 8, 2, 0, 0, 2), chunk("IDAT", 1)),
    "invalid_image",
    /method/,
  ],
  [
    "a palette PNG without its palette",
    png(ihdr(4, 4, 8, 3), chunk("IDAT", 1)),
    "invalid_image",
    /no palette/,
  ],
  [
    "a PNG with a truncated header",
    png(chunk("IHDR", 0, 0, 0, 4), chunk("IDAT", 1)),
    "invalid_image",
    /truncated/,
  ],
  [
    "an animated PNG",
    png(ihdr(4, 4), chunk("acTL", 0, 0, 0, 2, 0, 0, 0, 0), chunk("IDAT", 1)),
    "unsupported_image",
    /animated/,
  ],
  [
    "a PNG of many chunks",
    png(ihdr(4, 4), ...Array.from({ length: 65_537 }, () => chunk("IDAT"))),
    "unsupported_image",
    /chunks/,
  ],
];

describe("the header of an image", () => {
  it.each(validImages)("has the stored size: $name", ({ name, file, width, height }) => {
    const header = parseImageHeader(file, 0);
    const [storedWidth, storedHeight] = header.orientation > 4 ? [height, width] : [width, height];
    expect(header).toMatchObject({
      format: name.split(",")[0],
      width: storedWidth,
      height: storedHeight,
    });
    expect(header.decodingBytes).toBeGreaterThan(file.length + width * height * 3);
  });

  it("has the first orientation of the file", () => {
    expect(
      validImages
        .filter(({ name }) => name.startsWith("jpeg, turned"))
        .map(({ file }) => parseImageHeader(file, 0).orientation),
    ).toEqual([2, 3, 4, 5, 6, 7, 8]);
    const exif = (...tiff: readonly number[]) => segment(0xe1, ...ascii("Exif\0\0"), ...tiff);
    const little = [0x49, 0x49, 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0];
    const parseOrientation = (...parts: readonly Uint8Array[]) =>
      parseImageHeader(jpeg(...parts, frame(4, 4), scan(), END), 0).orientation;
    expect(parseOrientation(exif(...little, 6, 0), exif(...little, 3, 0))).toBe(6);
    expect({
      tooLarge: parseOrientation(exif(...little, 9, 0)),
      tooSmall: parseOrientation(exif(...little, 0, 0)),
      truncated: parseOrientation(exif(...little)),
      empty: parseOrientation(exif()),
      missing: parseOrientation(),
    }).toEqual({ tooLarge: 1, tooSmall: 1, truncated: 1, empty: 1, missing: 1 });
  });

  it("predicts the memory of coefficients that several scans share", () => {
    const predictBytes = (marker: number, components = 3) =>
      parseImageHeader(jpeg(frame(1_000, 1_000, { marker }), scan(components), END), 0)
        .decodingBytes;
    expect(predictBytes(0xc2) - predictBytes(0xc0)).toBe(3 * 125 * 125 * 128);
    expect(predictBytes(0xc0, 1) - predictBytes(0xc0)).toBeGreaterThan(3 * 125 * 125 * 128 - 100); // one scan per component
  });
});

describe("parseImageHeader", () => {
  it.each(invalidImages)("rejects %s", (_description, file, code, reason) => {
    expect(() => parseImageHeader(file, 2)).toThrow(
      expect.objectContaining({ code, detail: expect.stringMatching(reason) }),
    );
    expect(() => parseImageHeader(file, 2)).toThrow(/Input 2/);
  });

  it("reads a view of a larger buffer, and never beyond it", () => {
    for (const { file } of validImages) {
      const larger = concatBytes([Uint8Array.of(1, 2, 3), file, file]);
      expect(parseImageHeader(larger.subarray(3, 3 + file.length), 0)).toEqual(
        parseImageHeader(file, 0),
      );
      for (let end = 0; end < file.length - 2; end++)
        expect(() => parseImageHeader(larger.subarray(3, 3 + end), 0)).toThrow(EdgeTierError);
    }
  });
});

/** Returns whether a file gives a valid header, or one of the two expected errors. */
const hasDefinedResult = (file: Uint8Array) => {
  try {
    const { width, height, orientation, decodingBytes } = parseImageHeader(file, 0);
    return (
      width > 0 &&
      height > 0 &&
      orientation >= 1 &&
      orientation <= 8 &&
      decodingBytes > width * height
    );
  } catch (error) {
    return (
      error instanceof EdgeTierError && ["invalid_image", "unsupported_image"].includes(error.code)
    );
  }
};

describe("parseImageHeader with arbitrary bytes", () => {
  it("returns a size or an error (property)", () => {
    const file = fc.constantFrom(...validImages.map((image) => image.file));
    const beginning = fc.constantFrom(
      Uint8Array.of(0xff, 0xd8, 0xff),
      SIGNATURE,
      jpeg(frame(4, 4)),
      concatBytes([SIGNATURE, ihdr(4, 4)]),
    );
    const changes = fc.array(fc.tuple(fc.nat(2_000), fc.integer({ min: 0, max: 255 })), {
      maxLength: 8,
    });
    fc.assert(
      fc.property(
        fc.uint8Array({ maxLength: 200 }),
        (bytes) => void expect(hasDefinedResult(bytes)).toBe(true),
      ),
    );
    fc.assert(
      fc.property(
        beginning,
        fc.uint8Array({ maxLength: 300 }),
        (start, rest) => void expect(hasDefinedResult(concatBytes([start, rest]))).toBe(true),
      ),
    );
    fc.assert(
      fc.property(file, changes, fc.nat(2_000), (whole, edits, end) => {
        const changed = whole.slice(0, Math.max(8, whole.length - (end % whole.length)));
        for (const [at, value] of edits) changed[at % changed.length] = value;
        expect(hasDefinedResult(changed)).toBe(true);
      }),
      { numRuns: propertyRuns(2_000) },
    );
  });

  it("rejects large files of repeated patterns", () => {
    const filled = (pattern: readonly number[]) =>
      Uint8Array.from({ length: 4_000_000 }, (_, at) => pattern[at % pattern.length] ?? 0);
    for (const pattern of [
      [0xff],
      [0xff, 0],
      [0xff, 0xd0],
      [0xff, 0xfe, 0, 2],
      [0xff, 0xda, 0, 2],
    ]) {
      expect(() => parseImageHeader(jpeg(frame(4, 4), scan(), filled(pattern)), 0)).toThrow(
        EdgeTierError,
      );
    }
    expect(() => parseImageHeader(concatBytes([SIGNATURE, filled([...chunk("IDAT")])]), 0)).toThrow(
      EdgeTierError,
    );
  });
});

describe("stripAncillaryChunks", () => {
  it("keeps the chunks that determine the pixels, and removes all others", () => {
    const kept = [
      ihdr(4, 4),
      chunk("PLTE", 1, 2, 3),
      chunk("tRNS", 0),
      chunk("IDAT", 1),
      chunk("IDAT", 2),
    ];
    const [header, ...others] = kept;
    expect(
      stripAncillaryChunks(
        png(
          header as Uint8Array,
          chunk("iCCP", 1, 2),
          chunk("zTXt", 3),
          ...others,
          chunk("tEXt", 4),
        ),
      ),
    ).toEqual(png(...kept));
    expect(detectImageFormat(stripAncillaryChunks(sampleImage("png").file))).toBe("png");
  });
});
