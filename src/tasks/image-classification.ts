// Task "image-classification": classifies one JPEG or PNG file.

import { fromBase64 } from "../core/base64.ts";
import { coreErrors } from "../core/common-errors.ts";
import { sha256Hex } from "../core/hash.ts";
import { taskErrors } from "./errors.ts";
import { parseImageHeader } from "./image/image-header.ts";
import { createImagePreprocessor, expectImage } from "./image/image-preprocessor.ts";
import type { ImageInput } from "./image/image.ts";
import { createInputTypeError } from "./input-type-error.ts";
import type { InputLimits, Task } from "./task.ts";

/** A grayscale PNG of one pixel. */
const EXAMPLE_PNG_BASE64 =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg==";
/** Maximum of the manifest's `maxPixels`. */
const MAX_PIXELS = 16_777_216;

export const imageClassificationTask: Task = {
  name: "image-classification",
  exampleInput: validateImage(fromBase64(EXAMPLE_PNG_BASE64) ?? new Uint8Array(), 0, {
    maxBytes: EXAMPLE_PNG_BASE64.length,
  }),
  mediaTypes: ["image/jpeg", "image/png"],

  parseInput(raw, index, limits) {
    const base64 = typeof raw === "object" && raw !== null && "b64" in raw ? raw.b64 : undefined;
    if (typeof base64 !== "string") throw createInputTypeError(raw, index, '{"b64": …}');
    // The length alone gives a lower bound of the bytes, so an input that is too long is not decoded.
    const minBytes = Math.floor(base64.length / 4) * 3 - 2;
    if (minBytes > limits.maxBytes)
      throw taskErrors.inputTooLarge(index, minBytes, limits.maxBytes);
    const bytes = fromBase64(base64);
    if (bytes === undefined)
      throw coreErrors.invalidRequest([`\`inputs[${index}].b64\` is not valid base64`]);
    return validateImage(bytes, index, limits);
  },

  computeIdentity: async (input) => await sha256Hex(expectImage(input).bytes),
  encodeInput: (input) => expectImage(input).bytes,
  decodeInput: validateImage,

  createPreprocessor: createImagePreprocessor,
};

function validateImage(
  bytes: Uint8Array,
  index: number,
  { maxBytes, maxPixels = MAX_PIXELS }: InputLimits,
): ImageInput {
  if (bytes.byteLength > maxBytes)
    throw taskErrors.inputTooLarge(index, bytes.byteLength, maxBytes);
  const header = parseImageHeader(bytes, index);
  if (header.width * header.height > maxPixels)
    throw taskErrors.imageTooLarge(index, header.width, header.height, maxPixels);
  return { kind: "image", bytes, header, index };
}
