// The task "image-classification": one JPEG or PNG file in, one label out.

import { coreErrors } from "../core/common-errors.ts";
import { taskErrors } from "./errors.ts";
import { fromBase64 } from "../core/base64.ts";
import { sha256Hex } from "../core/hash.ts";
import { describeInputType } from "./describe-input.ts";
import { parseImageHeader } from "./image/image-header.ts";
import { createImagePreprocessor, expectImage } from "./image/image-preprocessor.ts";
import type { ImageInput } from "./image/image.ts";
import type { InputLimits, Task } from "./task.ts";

/** A grey PNG of one pixel. */
const EXAMPLE_PNG_BASE64 =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg==";
/** The largest that a manifest can allow. */
const MAX_PIXELS = 16_777_216;

export const imageClassificationTask: Task = {
  name: "image-classification",
  exampleInput: validateImage(fromBase64(EXAMPLE_PNG_BASE64) ?? new Uint8Array(), 0, {
    maxBytes: EXAMPLE_PNG_BASE64.length,
  }),
  mediaTypes: ["image/jpeg", "image/png"],

  parseInput(raw, index, limits) {
    const text = typeof raw === "object" && raw !== null && "b64" in raw ? raw.b64 : undefined;
    if (typeof text !== "string")
      throw coreErrors.invalidRequest([
        `inputs.${index}: expected an image as {"b64": "<base64>"}, found ${describeInputType(raw)}`,
      ]);
    // Three quarters of its length, less padding: a long text need not be decoded to know that it is too long.
    const leastBytes = Math.floor(text.length / 4) * 3 - 2;
    if (leastBytes > limits.maxBytes)
      throw taskErrors.inputTooLarge(index, leastBytes, limits.maxBytes);
    const bytes = fromBase64(text);
    if (bytes === undefined)
      throw coreErrors.invalidRequest([`inputs.${index}.b64: is not base64`]);
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
