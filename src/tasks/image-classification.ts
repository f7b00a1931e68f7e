// The task "image-classification": one JPEG or PNG file in, one label out.

import { coreErrors } from "../core/common-errors.ts";
import { taskErrors } from "./errors.ts";
import { fromBase64 } from "../core/base64.ts";
import { sha256Hex } from "../core/hash.ts";
import { foundInstead } from "./found-instead.ts";
import { readImageHeader } from "./image/image-header.ts";
import { createImagePreprocessor, imageOf } from "./image/image-preprocessor.ts";
import type { ImageInput } from "./image/image.ts";
import type { InputLimits, Task } from "./task.ts";

/** A grey PNG of one pixel. */
const EXAMPLE =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg==";
/** The largest that a manifest can allow. */
const MAX_PIXELS = 16_777_216;

export const imageClassification: Task = {
  name: "image-classification",
  example: checked(fromBase64(EXAMPLE) ?? new Uint8Array(), 0, { maxBytes: EXAMPLE.length }),
  mediaTypes: ["image/jpeg", "image/png"],

  parseInput(raw, index, limits) {
    const text = typeof raw === "object" && raw !== null && "b64" in raw ? raw.b64 : undefined;
    if (typeof text !== "string")
      throw coreErrors.invalidRequest([
        `inputs.${index}: expected an image as {"b64": "<base64>"}, found ${foundInstead(raw)}`,
      ]);
    // Three quarters of its length, less padding: a long text need not be decoded to know that it is too long.
    const leastBytes = Math.floor(text.length / 4) * 3 - 2;
    if (leastBytes > limits.maxBytes)
      throw taskErrors.inputTooLarge(index, leastBytes, limits.maxBytes);
    const bytes = fromBase64(text);
    if (bytes === undefined)
      throw coreErrors.invalidRequest([`inputs.${index}.b64: is not base64`]);
    return checked(bytes, index, limits);
  },

  identityOf: async (input) => await sha256Hex(imageOf(input).bytes),
  toBytes: (input) => imageOf(input).bytes,
  fromBytes: checked,

  createPreprocessor: createImagePreprocessor,
};

function checked(
  bytes: Uint8Array,
  index: number,
  { maxBytes, maxPixels = MAX_PIXELS }: InputLimits,
): ImageInput {
  if (bytes.byteLength > maxBytes)
    throw taskErrors.inputTooLarge(index, bytes.byteLength, maxBytes);
  const header = readImageHeader(bytes, index);
  if (header.width * header.height > maxPixels)
    throw taskErrors.imageTooLarge(index, header.width, header.height, maxPixels);
  return { kind: "image", bytes, header, index };
}
